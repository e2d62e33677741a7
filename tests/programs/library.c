/* A library with one function, NAME, that returns which file it was built as (TAG). */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

const char *NAME(void);
const char *NAME(void)
{
	return TAG;
}

/* Data, relocations and an initialiser, as real libraries have them. */
const char *JOIN(NAME, _table)[] = {TAG, TAG};
static int started;
__attribute__((constructor)) static void start(void)
{
	started++;
}
int JOIN(NAME, _started)(void);
int JOIN(NAME, _started)(void)
{
	return started;
}
