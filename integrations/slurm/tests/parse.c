/* sources: parse.c */
/* Valid and invalid inputs of the plugin. Texts lie in memory of exactly their size. */
#define _GNU_SOURCE
#include "check.h"
#include "parse.h"

#define ANSWER(text) text, sizeof(text)

static bool parses(const char *text, size_t size, struct hwsl_answer *answer)
{
	char *exact = malloc(size ? size : 1);

	memcpy(exact, text, size);
	bool done = hwsl_parse_answer(exact, size, answer);
	if (done && answer->kind != HWSL_ANSWER_ALONE)
		CHECK(strlen(answer->session) == 16 && strlen(answer->node) < 10, "%s", answer->session);
	free(exact);
	return done;
}

static void answers(void)
{
	static const char audit[] = "audit\0000123456789abcdef\0003\00017\0/dev/shm/t b\0/n/a.so";
	static const char alone[] = "alone\0it\nis over";
	struct hwsl_answer answer;

	CHECK(hwsl_parse_answer(ANSWER(audit), &answer) && answer.kind == HWSL_ANSWER_AUDIT, "audit");
	CHECK(strcmp(answer.session, "0123456789abcdef") == 0 && strcmp(answer.node, "3") == 0, "%s", answer.session);
	CHECK(strcmp(answer.nodes, "17") == 0 && strcmp(answer.table, "/dev/shm/t b") == 0, "%s", answer.table);
	CHECK(strcmp(answer.library, "/n/a.so") == 0, "%s", answer.library);
	CHECK(hwsl_parse_answer(ANSWER("enter\0000123456789abcdef\0003\00017\0/n/s"), &answer), "enter");
	CHECK(answer.kind == HWSL_ANSWER_ENTER && strcmp(answer.supervisor, "/n/s") == 0, "%s", answer.supervisor);
	CHECK(hwsl_parse_answer(ANSWER(alone), &answer) && answer.kind == HWSL_ANSWER_ALONE, "alone");
	CHECK(strcmp(answer.why, "it\nis over") == 0, "%s", answer.why);
	for (size_t cut = 0; cut < sizeof(audit); cut++)
		CHECK(!parses(audit, cut, &answer), "%zu bytes of an answer", cut);
	for (size_t cut = 0; cut < sizeof(alone); cut++)
		CHECK(!parses(alone, cut, &answer), "%zu bytes of an answer", cut);
}

static void io_answers(void)
{
	static const char io[] = "io\0/n/libio.so\0yes\0auto\0\0/r\0plain\0000123456789abcdef\0003\00017";
	struct hwsl_answer answer;

	CHECK(hwsl_parse_answer(ANSWER(io), &answer) && answer.kind == HWSL_ANSWER_PLAIN, "plain");
	CHECK(strcmp(answer.io.library, "/n/libio.so") == 0 && strcmp(answer.nodes, "17") == 0, "%s",
		answer.io.library);
	CHECK(strcmp(answer.io.everywhere, "yes") == 0 && strcmp(answer.io.how, "auto") == 0, "%s", answer.io.how);
	CHECK(!answer.io.profile[0] && strcmp(answer.io.report, "/r") == 0, "%s", answer.io.report);
	for (size_t cut = 0; cut < sizeof(io); cut++)
		CHECK(!parses(io, cut, &answer), "%zu bytes of an answer", cut);
	CHECK(hwsl_parse_answer(ANSWER("io\0/n/l\0no\0auto\0\0\0alone\0it is over"), &answer), "alone");
	CHECK(answer.kind == HWSL_ANSWER_ALONE && strcmp(answer.io.library, "/n/l") == 0, "alone");
	CHECK(hwsl_parse_answer(ANSWER("alone\0x"), &answer) && !answer.io.library, "none");
	CHECK(!parses(ANSWER("io\0n/l\0no\0auto\0\0\0alone\0it is over"), &answer), "a relative path");
}

static void preloads(void)
{
	static const struct {
		const char *users, *expected;
	} cases[] = {
		{NULL, "/n/io.so"},
		{"", "/n/io.so"},
		{"/a.so b.so", "/a.so b.so:/n/io.so"},
		{"/x/io.so", "/x/io.so"},
		{"/a:io.so:/b", "/a:io.so:/b"},
		{"/x/audio.so", "/x/audio.so:/n/io.so"},
	};

	for (size_t n = 0; n < sizeof(cases) / sizeof(*cases); n++) {
		size_t exact = strlen(cases[n].expected) + 1;

		for (size_t size = 1; size <= exact; size++) {
			char *out = malloc(size);
			bool fits = hwsl_join_preload(out, size, "/n/io.so", cases[n].users);

			CHECK(fits == (size == exact), "%s in %zu bytes", cases[n].expected, size);
			CHECK(!fits || strcmp(out, cases[n].expected) == 0, "%s", out);
			free(out);
		}
	}
}

static void wrong_answers(void)
{
	struct hwsl_answer answer;

	CHECK(!parses(ANSWER(""), &answer), "nothing");
	CHECK(!parses(ANSWER("\0\0\0\0\0\0\0\0\0"), &answer), "empty fields");
	CHECK(!parses(ANSWER("enter\0000123456789abcde\0003\00017\0/n/s"), &answer), "a short session");
	CHECK(!parses(ANSWER("enter\0000123456789abcdef\0003x\00017\0/n/s"), &answer), "a wrong number");
	CHECK(!parses(ANSWER("enter\0000123456789abcdef\0001234567890\00017\0/n/s"), &answer), "a large number");
	CHECK(!parses(ANSWER("enter\0000123456789abcdef\0003\00017\0n/s"), &answer), "a relative path");
	CHECK(!parses(ANSWER("audit\0000123456789abcdef\0003\00017\0/n/s"), &answer), "a field too few");
	CHECK(!parses(ANSWER("enter\0000123456789abcdef\0003\00017\0/n/s\0/x"), &answer), "a field too many");
	CHECK(!parses(ANSWER("audit\0000123456789abcdef\0003\00017\0/n/s\0/x\0/y"), &answer), "two too many");
	CHECK(!parses(ANSWER("serve\0000123456789abcdef\0003\00017\0/n/s"), &answer), "another word");
}

static void audits(void)
{
	static const struct {
		const char *users, *expected;
	} cases[] = {
		{NULL, "/n/a.so"},
		{"", "/n/a.so"},
		{"/tool.so", "/n/a.so:/tool.so"},
		{"/a:/b", "/n/a.so:/a:/b"},
		{"/x/libheadwater-audit.so:/tool.so", "/n/a.so:/tool.so"},
		{"/tool.so:/x/libheadwater-audit.so", "/n/a.so:/tool.so"},
		{":::/tool.so::", "/n/a.so:/tool.so"},
	};

	for (size_t n = 0; n < sizeof(cases) / sizeof(*cases); n++) {
		size_t exact = strlen(cases[n].expected) + 1;

		for (size_t size = 0; size <= exact; size++) {
			char *out = malloc(size ? size : 1);
			bool fits = hwsl_join_audit(out, size, "/n/a.so", cases[n].users);

			CHECK(fits == (size == exact), "%s in %zu bytes", cases[n].expected, size);
			CHECK(!fits || strcmp(out, cases[n].expected) == 0, "%s", out);
			free(out);
		}
	}
}

static void settings(void)
{
	char binary[] = "headwater=/opt/hw/bin/headwater", setting[] = "default=shared=/sw", other[] = "defalt=on";
	char *arguments[] = {binary, other, setting};
	struct hwsl_site site;

	CHECK(!hwsl_parse_site(0, NULL, &site) && strcmp(site.binary, "/usr/bin/headwater") == 0, "%s", site.binary);
	CHECK(!site.setting && !hwsl_options_of(site.setting), "off unless the site says otherwise");
	CHECK(hwsl_parse_site(3, arguments, &site) == other, "the word that is not known");
	CHECK(strcmp(site.binary, "/opt/hw/bin/headwater") == 0, "%s", site.binary);
	CHECK(strcmp(hwsl_options_of(site.setting), "shared=/sw") == 0, "%s", site.setting);
	CHECK(!hwsl_options_of("off") && strcmp(hwsl_options_of("on"), "") == 0, "off and on");
	CHECK(hwsl_has_name("LD_AUDIT=x", "LD_*") && hwsl_has_name("LD_AUDIT=x", "LD_AUDIT"), "LD_AUDIT");
	CHECK(!hwsl_has_name("LD_AUDIT=x", "LD_AUD") && !hwsl_has_name("LD=x", "LD_*") && !hwsl_has_name("", "LD_*"),
		"others");
}

static void welcomes(void)
{
	static const struct {
		const char *line;
		bool expected;
	} cases[] = {
		{"{}\n", true},
		{"{\"status\":null}\n", true},
		{"{}", false},
		{"", false},
		{"\n", false},
		{"{\"refused\":\"nonamespace\"}\n", false},
		{"[]\n", false},
	};

	for (size_t n = 0; n < sizeof(cases) / sizeof(*cases); n++) {
		size_t size = strlen(cases[n].line);
		char *exact = malloc(size ? size : 1);

		memcpy(exact, cases[n].line, size);
		CHECK(hwsl_is_welcome(exact, size) == cases[n].expected, "%s", cases[n].line);
		free(exact);
	}
}

int main(void)
{
	answers();
	io_answers();
	wrong_answers();
	preloads();
	audits();
	settings();
	welcomes();
	return 0;
}
