/* sources: parse.c */
/* Values of the option, the job's variables, and shells on hosts. */
#define _GNU_SOURCE
#include "check.h"
#include "parse.h"

static void options(void)
{
	CHECK(!hwfl_options_of("off") && !hwfl_options_of("/home/me/.headwater/0123"), "off");
	CHECK(strcmp(hwfl_options_of("on"), "") == 0, "on");
	CHECK(strcmp(hwfl_options_of("via=audit,shared=/sw"), "via=audit,shared=/sw") == 0, "options");
	static const struct {
		const char *json, *text;
	} cases[] = {{"1", "on"}, {"true", "on"}, {"0", "off"}, {"false", "off"}, {"\"shared=/sw\"", "shared=/sw"},
		{"\"\"", NULL}, {"\"", NULL}, {"", NULL}, {"{\"shared\":1}", NULL}, {"\"a\\\"b\"", NULL}, {"2", NULL}};

	for (size_t n = 0; n < sizeof(cases) / sizeof(*cases); n++) {
		char *json = strdup(cases[n].json);
		const char *text = hwfl_text_of(json);

		CHECK(cases[n].text ? text && strcmp(text, cases[n].text) == 0 : !text, "%s: %s", cases[n].json,
			text ? text : "none");
		free(json);
	}
	CHECK(hwfl_is_command("/opt/bin/flux", "flux") && hwfl_is_command("flux", "flux"), "a name");
	CHECK(!hwfl_is_command("/flux/app", "flux") && !hwfl_is_command("fluxes", "flux"), "another name");
}

/* Reads the names of an object, in memory of exactly its size; returns them with blanks between. */
static char *names_of(const char *object)
{
	char *text = strdup(object), *rest = text, *name, *all = calloc(1, strlen(object) + 1);
	size_t count = 0, names_max = hwfl_names_max(object);

	while ((name = hwfl_next_name(&rest))) {
		strcat(strcat(all, *all ? " " : ""), name);
		count++;
	}
	CHECK(count <= names_max, "%s: %zu of at most %zu names", object, count, names_max);
	free(text);
	return all;
}

static void variables(void)
{
	static const struct {
		const char *object, *names;
	} cases[] = {
		{"{}", ""},
		{"{\"PATH\":\"/bin:/usr/bin\",\"HOME\":\"/root\"}", "PATH HOME"},
		{"{\"A\":\"say \\\"B\\\":\\\\\",\"C\":\"\"}", "A C"},
		{"{\"A\\\"x\":\"1\",\"B\":\"2\"}", "B"},
		{"{\"A\":\"1\",\"B", "A"},
		{"{\"A\":\"1\\", "A"},
		{"{\"A\":", ""},
		{"\"", ""},
		{"", ""},
	};

	for (size_t n = 0; n < sizeof(cases) / sizeof(*cases); n++) {
		char *names = names_of(cases[n].object);

		CHECK(strcmp(names, cases[n].names) == 0, "%s: %s", cases[n].object, names);
		free(names);
	}
}

static void place(const char *const *names, unsigned count, unsigned rank, struct hwfl_place expected)
{
	struct hwfl_place found = {77, 77, false};

	hwfl_place_of(names, count, rank, &found);
	CHECK(found.number == expected.number && found.hosts == expected.hosts && found.is_first == expected.is_first,
		"shell %u of %u: %u of %u, %d", rank, count, found.number, found.hosts, found.is_first);
}

static void hosts(void)
{
	const char *const own[] = {"b", "a", "c"}, *const shared[] = {"b", "a", "b", "a", "c"};
	const char *const unknown[] = {"a", NULL, "a"};

	place(own, 3, 0, (struct hwfl_place){0, 3, true});
	place(own, 3, 1, (struct hwfl_place){1, 3, true});
	place(shared, 5, 0, (struct hwfl_place){1, 3, true});
	place(shared, 5, 1, (struct hwfl_place){0, 3, true});
	place(shared, 5, 2, (struct hwfl_place){1, 3, false});
	place(shared, 5, 3, (struct hwfl_place){0, 3, false});
	place(shared, 5, 4, (struct hwfl_place){2, 3, true});
	place(unknown, 3, 2, (struct hwfl_place){77, 77, false});
	place(own, 3, 3, (struct hwfl_place){77, 77, false});
}

int main(void)
{
	options();
	variables();
	hosts();
	return 0;
}
