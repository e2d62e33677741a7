/* A program of the processor's 32-bit mode, with the C library alone: nothing of the compiler's is needed for that. */
int puts(const char *text);
_Noreturn void exit(int status);

_Noreturn void _start(void)
{
	puts("of 32 bits");
	exit(0);
}
