/* Requests, and the results of MPI's calls. Results that arrive in any order are logged in that of the plan. */
#include "sequences.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

enum variant {
	WAIT,
	WAITALL,
	WAITANY,
	WAITSOME,
	TEST,
	TESTALL,
	TESTANY,
	TESTSOME,
	GET_STATUS,
	IGNORED,
	GET_STATUS_ONCE
};

/* A value that no MPI sets. */
#define UNTOUCHED 7654321
#define REQUESTS_MAX 64

/* Several requests that are to complete. */
struct several {
	int count, done, codes[REQUESTS_MAX], is_done[REQUESTS_MAX], is_persistent[REQUESTS_MAX];
	MPI_Request handles[REQUESTS_MAX];
	MPI_Status statuses[REQUESTS_MAX];
};

static int class_of(int code)
{
	int class = code;

	/* A code may number its errors. */
	MPI_Error_class(code, &class);
	return class;
}

int event_code(const char *what, int code)
{
	int class = class_of(code);

	event("%s class %d", what, class);
	return class;
}

void fresh_status(MPI_Status *status)
{
	memset(status, 0, sizeof *status);
	status->MPI_SOURCE = status->MPI_TAG = status->MPI_ERROR = UNTOUCHED;
}

/* The received count is undefined after an error. A send's status has no fields. */
void event_status(const char *what, int code, MPI_Status *status, MPI_Datatype type)
{
	int class = event_code(what, code), count = -1, elements = -1;

	if (type == MPI_DATATYPE_NULL || (class != MPI_SUCCESS && class != MPI_ERR_TRUNCATE))
		return;
	event("%s source %d tag %d", what, status->MPI_SOURCE, status->MPI_TAG);
	if (class != MPI_SUCCESS)
		return;
	MPI_Get_count(status, type, &count);
#ifdef MPICH
	/* Of a structure of which a part has arrived MPICH 4 counts what isn't there. */
	if (count != MPI_UNDEFINED)
#endif
		MPI_Get_elements(status, type, &elements);
	event("%s count %d elements %d", what, count, elements);
}

static void one_is_done(struct several *all, int one, int code, const MPI_Status *status)
{
	if (one < 0 || one >= all->count || all->is_done[one])
		return;
	all->is_done[one] = 1;
	all->done++;
	all->codes[one] = class_of(code) == MPI_ERR_IN_STATUS ? status->MPI_ERROR : code;
	if (status != &all->statuses[one])
		all->statuses[one] = *status;
}

/* With MPICH 5 a persistent request that MPI_Request_get_status has shown to be complete is inactive from then on. */
static void complete_one(struct several *all, int one, enum variant variant)
{
	MPI_Request *handle = &all->handles[one];
	MPI_Status *status = &all->statuses[one], shown;
	int is_done = 0, code = MPI_SUCCESS, is_persistent = all->is_persistent[one];

	while (variant == TEST && !is_done && code == MPI_SUCCESS) {
		code = MPI_Test(handle, &is_done, status);
		sched_yield();
	}
	if (variant == GET_STATUS_ONCE && !is_persistent)
		MPI_Request_get_status(*handle, &is_done, status);
	is_done = 0;
	while (variant == GET_STATUS && !is_done) {
		MPI_Request_get_status(*handle, &is_done, status);
		sched_yield();
	}
	shown = *status;
	if (variant != TEST) {
		fresh_status(status);
		code = MPI_Wait(handle, status);
	}
	if (variant == GET_STATUS && is_persistent)
		one_is_done(all, one, MPI_SUCCESS, &shown);
	else
		one_is_done(all, one, code, status);
}

/* Whether Open MPI's MPI_Waitall returns an error depends on when it finds the request complete; the status has it. */
static int code_of(int code, const MPI_Status *status)
{
	return code == MPI_SUCCESS && status->MPI_ERROR != UNTOUCHED ? status->MPI_ERROR : code;
}

/* With an error in a status others may be pending yet: these are waited for. */
static void complete_all(struct several *all, enum variant variant)
{
	int is_done = 0, code = MPI_SUCCESS;

	if (variant == IGNORED) {
		code = MPI_Waitall(all->count, all->handles, MPI_STATUSES_IGNORE);
	} else if (variant == WAITALL) {
		code = MPI_Waitall(all->count, all->handles, all->statuses);
	} else {
		while (!is_done && code == MPI_SUCCESS) {
			code = MPI_Testall(all->count, all->handles, &is_done, all->statuses);
			sched_yield();
		}
	}
	for (int one = 0; one < all->count; one++) {
		if (class_of(code) == MPI_ERR_IN_STATUS && class_of(all->statuses[one].MPI_ERROR) == MPI_ERR_PENDING)
			complete_one(all, one, WAIT);
		else
			one_is_done(all, one, code_of(code, &all->statuses[one]), &all->statuses[one]);
	}
}

static void complete_some(struct several *all, enum variant variant)
{
	while (all->done < all->count) {
		MPI_Status statuses[REQUESTS_MAX];
		int indices[REQUESTS_MAX], count = 0, is_done = 1, code;

		for (int one = 0; one < all->count; one++)
			fresh_status(&statuses[one]);
		if (variant == WAITANY)
			code = MPI_Waitany(all->count, all->handles, &indices[0], &statuses[0]);
		else if (variant == TESTANY)
			code = MPI_Testany(all->count, all->handles, &indices[0], &is_done, &statuses[0]);
		else if (variant == WAITSOME)
			code = MPI_Waitsome(all->count, all->handles, &count, indices, statuses);
		else
			code = MPI_Testsome(all->count, all->handles, &count, indices, statuses);
		if (variant == WAITANY || variant == TESTANY)
			count = is_done ? 1 : 0;
		must(count != MPI_UNDEFINED, "some requests are active");
		for (int one = 0; one < count; one++)
			one_is_done(all, indices[one], code, &statuses[one]);
		if (count == 0)
			sched_yield();
	}
}

void complete(const char *what, int variant, int count, struct request **requests)
{
	static struct several all;

	must(count <= REQUESTS_MAX, "so many requests");
	memset(&all, 0, sizeof all);
	all.count = count;
	for (int one = 0; one < count; one++) {
		all.handles[one] = requests[one]->handle;
		all.is_persistent[one] = requests[one]->is_persistent;
		fresh_status(&all.statuses[one]);
	}
	if (variant == WAITALL || variant == TESTALL || variant == IGNORED)
		complete_all(&all, (enum variant)variant);
	else if (variant == WAITANY || variant == WAITSOME || variant == TESTANY || variant == TESTSOME)
		complete_some(&all, (enum variant)variant);
	for (int one = 0; one < count; one++)
		if (!all.is_done[one])
			complete_one(&all, one, (enum variant)variant);
	for (int one = 0; one < count; one++) {
		requests[one]->handle = all.handles[one];
#ifdef OPEN_MPI
		if (variant == IGNORED) {
			event("%s", what);
			continue;
		}
#endif
		if (variant == IGNORED)
			event_code(what, all.codes[one]);
		else
			event_status(what, all.codes[one], &all.statuses[one], requests[one]->type);
	}
}

void requests_free(void)
{
	for (int side = 0; side < 2; side++)
		for (int tag = 0; tag < TAGS_MAX; tag++)
			if (program.requests[side][tag].is_persistent)
				MPI_Request_free(&program.requests[side][tag].handle);
}
