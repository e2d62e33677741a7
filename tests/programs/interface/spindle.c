/* Uses Spindle's names, all of them, as a program does that was written for Spindle. */
#include <assert.h>
#include <fcntl.h>
#include <string.h>

#include "spindle.h"

static void show(const char *what, FILE *file)
{
	char text[64] = "";

	if (file && !fgets(text, sizeof(text), file))
		text[0] = '\0';
	printf("%s: %s\n", what, file ? text : "none");
	if (file)
		fclose(file);
}

int main(int count, char *arguments[])
{
	struct stat found;

	assert(count == 3);
	assert(spindle_is_present() == is_spindle_present());
	printf("present: %d\n", is_spindle_present());
	assert(is_spindle_enabled() == 0 && spindle_is_enabled() == 0);
	enable_spindle();
	spindle_enable();
	printf("enabled: %d\n", is_spindle_enabled());
	spindle_disable();
	disable_spindle();
	assert(is_spindle_enabled() == 0);
	show("open", fdopen(spindle_open(arguments[1], O_RDONLY), "r"));
	show("fopen", spindle_fopen(arguments[1], "r"));
	printf("stat: %ld\n", spindle_stat(arguments[2], &found) == 0 ? (long)found.st_size : -1);
	printf("lstat: %ld\n", spindle_lstat(arguments[2], &found) == 0 ? (long)found.st_size : -1);
	return 0;
}
