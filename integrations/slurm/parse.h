/* Inputs of the plugin: the site's arguments, the user's options, a node agent's answer. Pure functions. */
#ifndef HEADWATER_SLURM_PARSE_H
#define HEADWATER_SLURM_PARSE_H

#include <stdbool.h>
#include <stddef.h>

/* The longest answer of a node's part: some paths. */
#define HWSL_ANSWER_BYTES_MAX 65536

/* How a process finds its node's daemon. The texts lie in the answer. */
struct hwsl_answer {
	enum { HWSL_ANSWER_ALONE, HWSL_ANSWER_AUDIT, HWSL_ANSWER_ENTER, HWSL_ANSWER_PLAIN } kind;
	const char *why; /* alone: why the originals are used */
	const char *session, *node, *nodes;
	const char *table, *library; /* audit */
	const char *supervisor;      /* enter: a socket */
	struct {
		const char *library, *everywhere, *how, *profile, *report;
	} io; /* what becomes of its I/O; the library is NULL if nothing does */
};

/* Reads an answer: fields that each end in a zero byte (`Answer` in cli/src/rendezvous/messages.rs). False if it
 * is none. */
bool hwsl_parse_answer(const char *bytes, size_t size, struct hwsl_answer *answer);

/* The value of LD_AUDIT: the library, and what the user has there. What an outer session has put there stands
 * between the program and this one, and is left out. False if it has no room. */
bool hwsl_join_audit(char *out, size_t size, const char *library, const char *users);

/* The value of LD_PRELOAD: what the user has there, and the library, unless it is there. False if it has no room. */
bool hwsl_join_preload(char *out, size_t size, const char *library, const char *users);

/* The plugin's arguments in plugstack.conf. */
struct hwsl_site {
	const char *binary;  /* headwater=FILE */
	const char *setting; /* default=SETTING */
};

/* Reads the plugin's arguments; the first that isn't known, or NULL. */
const char *hwsl_parse_site(int count, char *const arguments[], struct hwsl_site *site);

/* The options of `headwater start` that a setting stands for: NULL, off, on or OPTIONS. NULL if off. */
const char *hwsl_options_of(const char *setting);

/* Whether a variable, NAME=VALUE, has this name, or begins with it if that ends in `*`. */
bool hwsl_has_name(const char *variable, const char *name);

/* The supervisor's answer to `enter` is a line of JSON. Whether it is there in full, and refuses nothing. */
bool hwsl_is_welcome(const char *line, size_t size);

#endif
