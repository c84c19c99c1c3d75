"""The system calls that a session may make, with their numbers on x86-64 and arm64 ("-" where it has none).

Numbers are from Linux's own headers, asm/unistd_64.h and asm-generic/unistd.h. Those that are allowed for some
arguments only are in `seccomp`.
"""

ALLOWED = """
read 0 63; write 1 64; readv 19 65; writev 20 66; pread64 17 67; pwrite64 18 68; preadv 295 69; pwritev 296 70;
preadv2 327 286; pwritev2 328 287; close 3 57; close_range 436 436; lseek 8 62; open 2 -; openat 257 56; openat2 437
437; creat 85 -; stat 4 -; fstat 5 80; lstat 6 -; newfstatat 262 79; statx 332 291; access 21 -; faccessat 269 48;
faccessat2 439 439; readlink 89 -; readlinkat 267 78; getdents 78 -; getdents64 217 61; dup 32 23; dup2 33 -; dup3
292 24; pipe 22 -; pipe2 293 59; fcntl 72 25; flock 73 32; fsync 74 82; fdatasync 75 83; sync_file_range 277 84;
ftruncate 77 46; truncate 76 45; rename 82 -; renameat 264 38; renameat2 316 276; mkdir 83 -; mkdirat 258 34; rmdir
84 -; unlink 87 -; unlinkat 263 35; link 86 -; linkat 265 37; symlink 88 -; symlinkat 266 36; chmod 90 -; fchmod 91
52; fchmodat 268 53; fchmodat2 452 452; chown 92 -; fchown 93 55; lchown 94 -; fchownat 260 54; umask 95 166; utime
132 -; utimes 235 -; utimensat 280 88; futimesat 261 -; getcwd 79 17; chdir 80 49; fchdir 81 50; statfs 137 43;
fstatfs 138 44; copy_file_range 326 285; sendfile 40 71; splice 275 76; tee 276 77; fallocate 285 47; fadvise64 221
223; readahead 187 213; getxattr 191 8; lgetxattr 192 9; fgetxattr 193 10; listxattr 194 11; llistxattr 195 12;
flistxattr 196 13; mmap 9 222; munmap 11 215; mprotect 10 226; mremap 25 216; madvise 28 233; brk 12 214; msync 26
227; mincore 27 232; membarrier 324 283; futex 202 98; futex_waitv 449 449; set_robust_list 273 99; get_robust_list
274 100; set_tid_address 218 96; gettid 186 178; rseq 334 293; sched_yield 24 124; sched_getaffinity 204 123;
sched_getparam 143 121; sched_getscheduler 145 120; sched_get_priority_max 146 125; sched_get_priority_min 147 126;
getcpu 309 168; exit 60 93; exit_group 231 94; restart_syscall 219 128; rt_sigaction 13 134; rt_sigprocmask 14 135;
rt_sigreturn 15 139; rt_sigpending 127 136; rt_sigtimedwait 128 137; rt_sigsuspend 130 133; sigaltstack 131 132;
signalfd4 289 74; pause 34 -; alarm 37 -; setitimer 38 103; getitimer 36 102; timer_create 222 107; timer_settime
223 110; timer_gettime 224 108; timer_delete 226 111; timer_getoverrun 225 109; timerfd_create 283 85;
timerfd_settime 286 86; timerfd_gettime 287 87; clock_gettime 228 113; clock_getres 229 114; clock_nanosleep 230
115; nanosleep 35 101; gettimeofday 96 169; time 201 -; times 100 153; getpid 39 172; getppid 110 173; getuid 102
174; geteuid 107 175; getgid 104 176; getegid 108 177; getresuid 118 148; getresgid 120 150; getgroups 115 158;
getpgid 121 155; getpgrp 111 -; getsid 124 156; setsid 112 157; setpgid 109 154; capget 125 90; uname 63 160;
sysinfo 99 179; getrlimit 97 163; setrlimit 160 164; getrusage 98 165; getpriority 140 141; wait4 61 260; waitid 247
95; poll 7 -; ppoll 271 73; select 23 -; pselect6 270 72; epoll_create 213 -; epoll_create1 291 20; epoll_ctl 233
21; epoll_wait 232 -; epoll_pwait 281 22; epoll_pwait2 441 441; eventfd 284 -; eventfd2 290 19; getrandom 318 278;
sendto 44 206; recvfrom 45 207; sendmsg 46 211; recvmsg 47 212; shutdown 48 210; getsockname 51 204; getpeername 52
205; getsockopt 55 209; setsockopt 54 208
"""
