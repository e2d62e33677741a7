/* An interpreter that imports what its programs will, stops, and then becomes what its processes' arguments say. */
#include "zygote.h"

char **hw_python_arguments(int argc, char **argv)
{
	(void)argc, (void)argv;
	return NULL;
}
