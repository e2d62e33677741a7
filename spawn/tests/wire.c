/* sources: core/wire.c */
/* Requests are decoded as they were encoded; bytes that are none are refused, and nothing is read outside of them. */
#include "core/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "random.h"

#define ROUNDS 200000
#define CHANGES_MAX 8

static char *const arguments[] = {"program", "", "two words", NULL};
static char *const variables[] = {"A=1", "B=", NULL};
static const struct pspawn_file_action actions[] = {
	{.kind = PSPAWN_OPEN, .fd = 1, .path = "/dev/null", .flags = 1},
	{.kind = PSPAWN_DUP2, .fd = 2, .from = 1},
};

static void same_list(char *const *found, char *const *expected)
{
	size_t i = 0;
	for (; expected[i]; i++)
		CHECK(found[i] && !strcmp(found[i], expected[i]), "%s", expected[i]);
	CHECK(!found[i], "a list of %zu ends", i);
}

static struct hwsp_bytes encoded(void)
{
	static const struct pspawn_limit limits[] = {{RLIMIT_NOFILE, {100, 200}}};
	struct hwsp_inherited inherited = {.group = 7, .fd_count = 2, .fds = {0, 5}};
	struct pspawn_options options = {
		.size = sizeof options, .flags = PSPAWN_SETSID, .limits = limits, .limit_count = 1};
	cpu_set_t mask;
	CPU_ZERO(&mask);
	CPU_SET(1, &mask);
	struct pspawn_process processes[] = {
		{.argv = arguments, .envp = variables, .cwd = "/tmp"},
		{.argv = arguments,
			.envp = variables,
			.mask = &mask,
			.mask_size = sizeof mask,
			.file_actions = actions,
			.file_action_count = 2},
	};
	struct hwsp_bytes bytes = {0};
	hwsp_encode(&bytes, &inherited, processes, 2, &options);
	CHECK(!bytes.failed, "%s", "memory");
	return bytes;
}

static void there_and_back(const struct hwsp_bytes *bytes)
{
	struct hwsp_request request;
	CHECK(hwsp_decode(bytes->data, bytes->length, 2, &request) == 0, "%s", "whole");
	CHECK(request.inherited.group == 7 && request.inherited.fds[1] == 5, "%s", "inherited");
	CHECK(request.options.flags == PSPAWN_SETSID && request.options.limits[0].limit.rlim_max == 200, "%s",
		"options");
	for (int i = 0; i < 2; i++) {
		same_list(request.processes[i].argv, arguments);
		same_list(request.processes[i].envp, variables);
	}
	CHECK(!strcmp(request.processes[0].cwd, "/tmp") && !request.processes[0].mask, "%s", "the first");
	CHECK(CPU_COUNT(request.processes[1].mask) == 1 && CPU_ISSET(1, request.processes[1].mask), "%s", "mask");
	CHECK(request.processes[1].file_action_count == 2 &&
			!strcmp(request.processes[1].file_actions[0].path, "/dev/null"),
		"%s", "file actions");
	hwsp_request_free(&request);
	for (uint32_t count = 0; count < 5; count++)
		CHECK(hwsp_decode(bytes->data, bytes->length, count, &request) == (count == 2 ? 0 : EINVAL), "%u",
			count);
}

/* Each in memory of its own length, so that the sanitizer detects reads behind it. */
static void damaged(const struct hwsp_bytes *bytes)
{
	struct hwsp_request request;
	for (size_t length = 0; length < bytes->length; length++) {
		char *cut = malloc(length ? length : 1);
		memcpy(cut, bytes->data, length);
		CHECK(hwsp_decode(cut, length, 2, &request) == EINVAL, "cut to %zu", length);
		free(cut);
	}
	char *copy = malloc(bytes->length);
	for (int round = 0; round < ROUNDS; round++) {
		memcpy(copy, bytes->data, bytes->length);
		for (uint64_t changes = 1 + random_word() % CHANGES_MAX; changes; changes--)
			copy[random_word() % bytes->length] = (char)random_word();
		if (hwsp_decode(copy, bytes->length, 2, &request) == 0)
			hwsp_request_free(&request);
	}
	free(copy);
}

int main(void)
{
	struct hwsp_bytes bytes = encoded();
	there_and_back(&bytes);
	damaged(&bytes);
	free(bytes.data);
	return 0;
}
