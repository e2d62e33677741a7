/* Inputs of the plugin: the site's arguments, the user's options, a node agent's answer. Pure functions. */
#ifndef HEADWATER_SLURM_PARSE_H
#define HEADWATER_SLURM_PARSE_H

#include <stdbool.h>
#include <stddef.h>

/* The longest answer of a node agent. It contains a few paths. */
#define HWSL_ANSWER_BYTES_MAX 65536

/* How a process finds its node's daemon. The texts lie in the answer. */
struct hwsl_answer {
	enum { HWSL_ANSWER_ALONE, HWSL_ANSWER_AUDIT, HWSL_ANSWER_ENTER, HWSL_ANSWER_PLAIN } kind;
	const char *why; /* alone: why the source files are used */
	const char *session, *node, *nodes;
	const char *table, *library; /* audit */
	const char *supervisor;      /* enter: a socket */
	struct {
		const char *library, *everywhere, *how, *profile, *report;
	} io; /* the I/O library; `library` is NULL if it is not used */
};

/* Reads an answer: fields that each end in a zero byte (`Answer` in cli/src/rendezvous/messages.rs). Returns false if
 * it is malformed. */
bool hwsl_parse_answer(const char *bytes, size_t size, struct hwsl_answer *answer);

/* Makes the value of LD_AUDIT: the library before those of the user. Leaves out an outer session's library. Returns
 * false if `out` is too small. */
bool hwsl_join_audit(char *out, size_t size, const char *library, const char *users);

/* Makes the value of LD_PRELOAD: the user's libraries before this one, unless it is among them. Returns false if `out`
 * is too small. */
bool hwsl_join_preload(char *out, size_t size, const char *library, const char *users);

/* The plugin's arguments in plugstack.conf. */
struct hwsl_site {
	const char *binary;  /* headwater=FILE */
	const char *setting; /* default=SETTING */
};

/* Reads the plugin's arguments. Returns the first unknown one, or NULL. */
const char *hwsl_parse_site(int count, char *const arguments[], struct hwsl_site *site);

/* Returns the options of `headwater start` for a setting (NULL, off, on or OPTIONS); NULL if off. */
const char *hwsl_options_of(const char *setting);

/* Returns whether a variable, NAME=VALUE, has this name, or begins with it if that ends in `*`. */
bool hwsl_has_name(const char *variable, const char *name);

/* Returns whether a supervisor's answer to `enter`, a line of JSON, is complete and no refusal. */
bool hwsl_is_welcome(const char *line, size_t size);

#endif
