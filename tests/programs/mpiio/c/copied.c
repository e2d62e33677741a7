/*
 * Data that comes from a file, but is sent from other memory, or in another way: rank 0 parses text and scatters the
 * numbers, packs what it has read, or sends it by a persistent request or MPI_Ibcast. Usage: copied --what WHAT --dir DIR,
 * with WHAT: scanned, lines, closed (before the scatter), sized (a stream is only asked for its size, and computed data
 * is scattered), packed, persistent, ibcast.
 */
#include <fcntl.h>
#include <unistd.h>

#include "program.h"

enum { NUMBERS = 200000, ROWS = 6, ROW_BYTES = 300000 };

static char path[4096];
static const char *what;

static int is(const char *name)
{
	return strcmp(what, name) == 0;
}

static void make_text(void)
{
	FILE *file = fopen(path, "w");

	for (int i = 0; file && i < NUMBERS; i++)
		fprintf(file, "%d\n", i * 7 % 1000003);
	if (!file || fclose(file) != 0)
		fail(path);
}

static void make_rows(void)
{
	char *row = memory(ROW_BYTES);
	int file = open(path, O_WRONLY | O_CREAT, 0644);

	for (int i = 0; i < ROWS; i++) {
		for (int at = 0; at < ROW_BYTES; at++)
			row[at] = (char)(at * 13 + i);
		if (write(file, row, ROW_BYTES) != ROW_BYTES)
			fail(path);
	}
	close(file);
	free(row);
}

static void parse(FILE *file, int *numbers)
{
	char line[64];

	for (int i = 0; i < NUMBERS; i++)
		if (is("lines") ? !fgets(line, sizeof line, file) || sscanf(line, "%d", &numbers[i]) != 1
				: fscanf(file, "%d", &numbers[i]) != 1)
			fail(path);
}

static void scatter_numbers(void)
{
	int own = NUMBERS / size, *numbers = memory(NUMBERS * sizeof(int)), *mine = memory((size_t)own * sizeof(int));
	FILE *file = rank ? NULL : fopen(path, "r");

	if (rank == 0 && !file)
		fail(path);
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = i;
	if (file && is("sized"))
		fseek(file, 0, SEEK_END);
	else if (file)
		parse(file, numbers);
	if (file && (is("closed") || is("sized"))) {
		fclose(file);
		file = NULL;
	}
	MPI_Scatter(numbers, own, MPI_INT, mine, own, MPI_INT, 0, MPI_COMM_WORLD);
	count(mine, (size_t)own * sizeof(int));
	if (file)
		fclose(file);
	free(mine);
	free(numbers);
}

/* A row of the file to each rank in turn. */
static void send_rows(void)
{
	int file = rank ? -1 : open(path, O_RDONLY), bytes = 0;
	char *row = memory(ROW_BYTES), *pack = memory(ROW_BYTES + 64);
	MPI_Request request;

	if (is("persistent")) {
		if (rank == 0)
			MPI_Send_init(row, ROW_BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
		else
			MPI_Recv_init(row, ROW_BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
	}
	for (int i = 0; i < ROWS && rank < 2; i++) {
		int at = 0;

		if (rank == 0 && read(file, row, ROW_BYTES) != ROW_BYTES)
			fail(path);
		if (is("persistent")) {
			MPI_Start(&request);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		} else if (is("ibcast")) {
			MPI_Ibcast(row, ROW_BYTES, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		} else if (rank == 0) {
			MPI_Pack(&i, 1, MPI_INT, pack, ROW_BYTES + 64, &at, MPI_COMM_WORLD);
			MPI_Pack(row, ROW_BYTES, MPI_BYTE, pack, ROW_BYTES + 64, &at, MPI_COMM_WORLD);
			MPI_Send(pack, at, MPI_PACKED, 1, 1, MPI_COMM_WORLD);
		} else {
			MPI_Status status;

			MPI_Recv(pack, ROW_BYTES + 64, MPI_PACKED, 0, 1, MPI_COMM_WORLD, &status);
			MPI_Get_count(&status, MPI_PACKED, &bytes);
			MPI_Unpack(pack, bytes, &at, &i, 1, MPI_INT, MPI_COMM_WORLD);
			MPI_Unpack(pack, bytes, &at, row, ROW_BYTES, MPI_BYTE, MPI_COMM_WORLD);
		}
		if (rank == 1)
			count(row, ROW_BYTES);
	}
	if (is("persistent"))
		MPI_Request_free(&request);
	if (rank == 0)
		close(file);
	free(pack);
	free(row);
}

int main(int argc, char **argv)
{
	start(&argc, &argv);
	what = option(argc, argv, "what", "");
	snprintf(path, sizeof path, "%s/input", option(argc, argv, "dir", "."));
	int is_text = !is("packed") && !is("persistent") && !is("ibcast");

	if (rank == 0 && is_text)
		make_text();
	else if (rank == 0)
		make_rows();
	MPI_Barrier(MPI_COMM_WORLD);
	if (is_text)
		scatter_numbers();
	else
		send_rows();
	return finish();
}
