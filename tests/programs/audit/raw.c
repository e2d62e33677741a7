/* raw FILE: makes a file by an instruction of its own, past the C library. */
#include <fcntl.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
#if defined(__x86_64__)
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(SYS_creat), "D"(argv[1]), "S"(0644) : "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = SYS_openat;
	register long result __asm__("x0") = AT_FDCWD;
	register long x1 __asm__("x1") = (long)argv[1];
	register long x2 __asm__("x2") = O_CREAT | O_WRONLY;
	register long x3 __asm__("x3") = 0644;
	__asm__ volatile("svc #0" : "+r"(result) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
#endif
	return result < 0;
}
