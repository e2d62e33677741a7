/* Exits as it was compiled to, or as its library was. */
#ifdef BY_LIBRARY
int status(void);
#else
static int status(void)
{
	return STATUS;
}
#endif

int main(void)
{
	return status();
}
