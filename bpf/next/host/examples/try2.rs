use tix_lab::*;
fn main() {
        run(2, |m| {
            let alice = m.cgroup(0, 300);
            let bob = m.cgroup(0, 100);
            let a = m.hogs(alice, 2);
            let c0 = m.cgroup(bob, 500);
            let t = [m.thread_on(c0, 1, 1000, hog()), m.thread_on(c0, 2, 100, hog())];
            for _ in 0..10 { 
            let sh = m.shares(&[&a[0..1], &a[1..2], &t[0..1], &t[1..2]], SECOND);
            println!("{sh:.5?} {:?}", m.stats()); m.dump(); }
        });
}
