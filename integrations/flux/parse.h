/* Texts of the plugin, and where a shell is among the job's hosts. No function needs Flux. */
#ifndef HEADWATER_FLUX_PARSE_H
#define HEADWATER_FLUX_PARSE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the options of `headwater start` that a setting stands for; NULL if it stands for none: "off", or a file. */
const char *hwfl_options_of(const char *setting);

/* Returns the text of an option's value in JSON: a string without escapes, or a number or truth value that stands for
 * "on" or "off". It stays in the memory of `json`. NULL if it is none of these. */
const char *hwfl_text_of(char *json);

/* Returns whether a program is a command of this name, with or without a directory. */
bool hwfl_is_command(const char *program, const char *name);

/* Returns an upper limit of the names in a JSON object of strings. */
size_t hwfl_names_max(const char *json);

/* Returns the next name in a JSON object of strings, of which `rest` is what is left; NULL at its end. Names with escapes
 * are left out. The object's memory is changed. */
char *hwfl_next_name(char **rest);

/* The place of a shell among the job's hosts. */
struct hwfl_place {
	/* The host's number, from 0, and how many hosts there are. */
	unsigned number, hosts;
	/* No shell with a lower rank is on the same host. */
	bool is_first;
};

/* Finds the place of shell `rank`, by the names of the hosts of `count` shells; leaves it unchanged if a name is unknown,
 * or memory is short. */
void hwfl_place_of(const char *const *names, unsigned count, unsigned rank, struct hwfl_place *place);

#endif
