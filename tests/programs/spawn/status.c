/* A library with the status by which a program exits. */
int status(void);

int status(void)
{
	return STATUS;
}
