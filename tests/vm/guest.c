// SPDX-License-Identifier: GPL-2.0-only
/*
 * The harness's side inside the guest: one static program.
 *
 * As PID 1 (/init of the initramfs) it makes the host's root, seen through virtiofs and covered by an
 * overlay in memory, the guest's root. As `guest agent` in the systemd image it only mounts what the
 * job needs. Either way it then asks the host for the job through the virtio port tix.ctl, runs it
 * with pipes for stdout and stderr, pumps those into ports of their own, and reports the exit status.
 * Pipes, because a port can be opened only once and programs like to open /dev/stderr.
 *
 * The job is "LENGTH\n" and LENGTH bytes of NUL-terminated items, told apart by their first letter:
 *   W tree   M modules directory   C current directory   m module to load   F file to copy into memory
 *   E environment   A argument
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ITEMS 4096

static char *args[MAX_ITEMS], *env[MAX_ITEMS], *mods[64], *files[256];
static int nargs, nenv, nmods, nfiles;
static char *tree, *modules, *cwd;
static int ctl = -1, child_pipe[2];

/* To the kernel log, which the host shows when the guest dies. */
static void die(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dprintf(2, "tix guest: %s: %s\n", text, strerror(errno));
	if (ctl >= 0)
		dprintf(ctl, "error %s: %s\n", text, strerror(errno));
	if (getpid() == 1)
		reboot(RB_POWER_OFF);
	exit(125);
}

static void mkdirs(const char *path)
{
	char part[4096];

	snprintf(part, sizeof(part), "%s", path);
	for (char *p = part + 1;; p++) {
		if (*p && *p != '/')
			continue;
		char c = *p;
		*p = 0;
		if (mkdir(part, 0755) && errno != EEXIST && errno != EROFS)
			die("mkdir %s", part);
		if (!c)
			return;
		*p = c;
	}
}

static void mnt(const char *type, const char *src, const char *dir, unsigned long flags, const char *opts)
{
	mkdirs(dir);
	if (mount(src, dir, type, flags, opts))
		die("mount %s on %s", type ? type : src, dir);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		dprintf(2, "tix guest: %s < %s: %s\n", path, text, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Opens the virtio port of that name; the kernel may still be probing, so look until it is there. */
static int port(const char *name)
{
	for (int tries = 0; tries < 3000; tries++) {
		DIR *dir = opendir("/sys/class/virtio-ports");
		struct dirent *e;
		char path[600], have[64];

		while (dir && (e = readdir(dir))) {
			snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", e->d_name);
			int fd = open(path, O_RDONLY | O_CLOEXEC);
			ssize_t n = fd < 0 ? -1 : read(fd, have, sizeof(have) - 1);

			if (fd >= 0)
				close(fd);
			if (n <= 0)
				continue;
			have[n] = 0;
			have[strcspn(have, "\n")] = 0;
			if (strcmp(have, name))
				continue;
			snprintf(path, sizeof(path), "/dev/%s", e->d_name);
			fd = open(path, O_RDWR | O_CLOEXEC);
			if (fd >= 0) {
				closedir(dir);
				return fd;
			}
		}
		if (dir)
			closedir(dir);
		usleep(10000);
	}
	errno = ENODEV;
	die("virtio port %s", name);
	return -1;
}

static void take(char *item)
{
	char *v = item + 1;

	switch (*item) {
	case 'W': tree = v; break;
	case 'M': modules = v; break;
	case 'C': cwd = v; break;
	case 'm': if (nmods < 63) mods[nmods++] = v; break;
	case 'F': if (nfiles < 255) files[nfiles++] = v; break;
	case 'E': if (nenv < MAX_ITEMS - 1) env[nenv++] = v; break;
	case 'A': if (nargs < MAX_ITEMS - 1) args[nargs++] = v; break;
	}
}

/* A read on a port whose host end is not there yet returns 0. */
static void ctl_read(char *buf, size_t n)
{
	while (n) {
		ssize_t got = read(ctl, buf, n);

		if (got < 0 && errno != EINTR)
			die("reading the job");
		if (got <= 0) {
			usleep(1000);
			continue;
		}
		buf += got;
		n -= got;
	}
}

static void read_job(void)
{
	size_t len = 0;
	char c;

	ctl = port("tix.ctl");
	while (ctl_read(&c, 1), c != '\n')
		len = len * 10 + (c - '0');
	char *buf = malloc(len + 1), *end = buf + len;
	ctl_read(buf, len);
	*end = 0;
	for (char *p = buf; p < end; p += strlen(p) + 1)
		take(p);
	if (!nargs || !cwd)
		die("the job is incomplete");
}

static void insmod_all(const char *dirname)
{
	DIR *dir = opendir(dirname);
	struct dirent *e;
	char path[600];

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dirname, e->d_name);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			die("loading %s", path);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

static void lo_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &ifr))
		die("lo");
	close(s);
}

static void cgroups(void)
{
	char have[512], line[64];
	FILE *f;

	mnt("cgroup2", "cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate,memory_recursiveprot");
	f = fopen("/sys/fs/cgroup/cgroup.controllers", "re");
	if (!f || !fgets(have, sizeof(have), f))
		die("cgroup.controllers");
	fclose(f);
	for (char *c = strtok(have, " \n"); c; c = strtok(NULL, " \n")) {
		snprintf(line, sizeof(line), "+%s", c);
		put("/sys/fs/cgroup/cgroup.subtree_control", line);
	}
}

/* Overlay of the host's root, then the switch: what PID 1 does before it is an agent like the other. */
static void become_root(void)
{
	static const char *const fresh[] = { "/tmp", "/run", "/var/tmp", "/dev/shm" };
	char path[4200];

	insmod_all("/modules");
	mnt("virtiofs", "root", "/lower", MS_RDONLY | MS_NODEV, NULL);
	mnt("tmpfs", "rw", "/rw", 0, NULL);
	mkdirs("/rw/up");
	mkdirs("/rw/work");
	mnt("overlay", "root", "/root", 0, "lowerdir=/lower,upperdir=/rw/up,workdir=/rw/work");
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/root%s", fresh[i]);
		mnt("tmpfs", "tmpfs", path, MS_NOSUID | MS_NODEV, i == 1 ? "mode=755" : "mode=1777");
	}
	snprintf(path, sizeof(path), "/root%s", tree);
	mnt("virtiofs", "tree", path, MS_NOSUID | MS_NODEV, NULL);
	if (modules) {
		char from[4200];

		snprintf(from, sizeof(from), "/lower%s", modules);
		mnt(NULL, from, "/root/lib/modules", MS_BIND, NULL);
	}
	mnt("devtmpfs", "dev", "/root/dev", MS_NOSUID, "mode=755");
	mnt("proc", "proc", "/root/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mnt("sysfs", "sys", "/root/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	if (chdir("/root") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		die("switching to the new root");
	mnt("devpts", "devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666");
	mnt("tmpfs", "tmpfs", fresh[3], MS_NOSUID | MS_NODEV, "mode=1777");
	mnt("debugfs", "debugfs", "/sys/kernel/debug", 0, NULL);
	mnt("tracefs", "tracefs", "/sys/kernel/tracing", 0, NULL);
	mnt("bpf", "bpf", "/sys/fs/bpf", 0, "mode=700");
	cgroups();
	symlink("/proc/self/fd", "/dev/fd");
	symlink("fd/0", "/dev/stdin");
	symlink("fd/1", "/dev/stdout");
	symlink("fd/2", "/dev/stderr");
	sethostname("tix-guest", 9);
	lo_up();
}

static void spawn_wait(char *const argv[])
{
	int st;
	pid_t pid = fork();

	if (!pid) {
		execvpe(argv[0], argv, env);
		_exit(127);
	}
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	if (st) {
		errno = ENOEXEC;
		die("%s %s", argv[0], argv[1]);
	}
}

/* A file's copy in memory takes its place, so that running it asks the host for nothing. */
static void copy_file(const char *path, int n)
{
	char to[64], buf[65536];
	struct stat st;
	ssize_t got;

	mkdirs("/run/tix-copy");
	snprintf(to, sizeof(to), "/run/tix-copy/%d", n);
	int in = open(path, O_RDONLY | O_CLOEXEC);
	if (in < 0 || fstat(in, &st))
		die("copying %s", path);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	if (out < 0)
		die("%s", to);
	while ((got = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, got) != got)
			die("%s", to);
	fchmod(out, st.st_mode & 07777);
	close(in);
	close(out);
	if (got < 0 || mount(to, path, NULL, MS_BIND, NULL))
		die("copying %s", path);
}

static void on_child(int sig)
{
	int e = errno;

	(void)sig;
	if (write(child_pipe[1], "", 1) < 0) { /* full: a wake-up is under way already */ }
	errno = e;
}

/* Moves what a pipe holds to a port. 0: the pipe is at its end; 1: empty for now. */
static int pump(int from, int to)
{
	char buf[65536];

	for (;;) {
		ssize_t n = read(from, buf, sizeof(buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return 1;
		if (!n)
			return 0;
		for (ssize_t at = 0; at < n;) {
			ssize_t w = write(to, buf + at, n - at);

			if (w < 0 && errno == EINTR)
				continue;
			if (w < 0)
				die("port");
			at += w;
		}
	}
}

static pid_t start(int out, int err)
{
	pid_t pid = fork();
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	if (pid)
		return pid;
	setsid();
	sigaction(SIGCHLD, &dfl, NULL);
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(out, 1);
	dup2(err, 2);
	if (chdir(cwd)) {
		dprintf(2, "guest: cannot change to %s: %s\n", cwd, strerror(errno));
		_exit(126);
	}
	for (int i = 0; i < nenv; i++)
		putenv(env[i]);
	execvpe(args[0], args, env);
	dprintf(2, "guest: cannot run %s: %s\n", args[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static int run_job(void)
{
	struct sigaction act = { .sa_handler = on_child, .sa_flags = SA_RESTART };
	struct sched_param prio = { .sched_priority = 90 };
	int out[2], err[2], ports[2] = { port("tix.out"), port("tix.err") }, status = 0;
	char junk[64];

	if (pipe2(child_pipe, O_CLOEXEC | O_NONBLOCK) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		die("pipe");
	sigaction(SIGCHLD, &act, NULL);
	/* Output flows however busy the guest is, and this is no load for the scheduler under test. */
	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &prio);
	dprintf(ctl, "start\n");
	pid_t job = start(out[1], err[1]);
	if (job < 0)
		die("fork");
	close(out[1]);
	close(err[1]);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	struct pollfd p[3] = { { child_pipe[0], POLLIN, 0 }, { out[0], POLLIN, 0 }, { err[0], POLLIN, 0 } };

	for (int done = 0; !done;) {
		int st;
		pid_t pid;

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			die("poll");
		while (read(child_pipe[0], junk, sizeof(junk)) > 0)
			;
		while ((pid = waitpid(-1, &st, WNOHANG)) > 0)
			if (pid == job) {
				done = 1;
				status = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
			}
		for (int i = 1; i < 3; i++)
			if (p[i].fd >= 0 && !pump(p[i].fd, ports[i - 1]))
				p[i].fd = -1;
	}
	return status;
}

int main(int argc, char **argv)
{
	int init = getpid() == 1;

	(void)argv;
	if (init) {
		mnt("proc", "proc", "/proc", 0, NULL);
		mnt("sysfs", "sys", "/sys", 0, NULL);
		mnt("devtmpfs", "dev", "/dev", 0, NULL);
		read_job();
		become_root();
	} else if (argc > 1) {
		read_job();
		mnt("virtiofs", "tree", tree, MS_NOSUID | MS_NODEV, NULL);
		if (modules)
			mnt("virtiofs", "modules", "/usr/lib/modules", MS_RDONLY, NULL);
	} else {
		errno = EINVAL;
		die("neither PID 1 nor an agent");
	}
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	for (int i = 0; i < nmods; i++)
		spawn_wait((char *[]){ "modprobe", mods[i], NULL });
	for (int i = 0; i < nfiles; i++)
		copy_file(files[i], i);
	int status = run_job();
	int fd = open(tree, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		syncfs(fd);
	dprintf(ctl, "exit %d\n", status);
	for (;;) /* the host ends the machine */
		pause();
}
