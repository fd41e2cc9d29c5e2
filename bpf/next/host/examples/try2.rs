use tix_lab::*;
fn main() {
        run(2, |m| {
            let alice = m.cgroup(0, 300);
            let bob = m.cgroup(0, 100);
            let a = m.hogs(alice, 2);
            let c0 = m.cgroup(bob, 1);
            let c2 = m.cgroup(bob, 500);
            let c4 = m.cgroup(c0, 20);
            let t = [m.thread_on(c4, 1, 100, hog()), m.thread_on(c0, 2, 1000, hog()), m.thread(c2, hog())];
            for _ in 0..10 { 
            let sh = m.shares(&[&a[0..1], &a[1..2], &t[0..1], &t[1..2], &t[2..3]], SECOND);
            println!("{sh:.5?} {:?}", m.stats()); m.dump(); }
        });
}
