/* A library that knows with what status a program exits. */
int status(void);

int status(void)
{
	return STATUS;
}
