/* The table of records against a map of single bytes: random records, joined and cut anywhere, and a table that is
 * full. */
#include <string.h>

#include "memory/file.h"
#include "memory/records.h"
#include "random.h"

#define BYTES 512
#define BASE ((uintptr_t)1 << 32)
#define FILES 3
#define RUNS 20
#define ROUNDS 200

/* What is known of a byte. */
struct byte {
	struct hwio_file *file;
	off_t offset;
	enum hwio_state state;
};

static struct byte model[BYTES];
static struct hwio_file *files[FILES];

static bool is_same(const struct byte *a, const struct byte *b)
{
	return a->file == b->file && (!a->file || (a->offset == b->offset && a->state == b->state));
}

static void compare(void)
{
	struct byte found[BYTES] = {{0}};
	uintptr_t last = 0;
	int references[FILES] = {0};
	bool is_any[3] = {false};
	for (size_t i = 0; i < hwio_record_count(); i++) {
		const struct hwio_record *record = hwio_record_at(i);
		CHECK(record->low >= last && record->low < record->high);
		CHECK(record->low >= BASE && record->high <= BASE + BYTES);
		CHECK(record->low >= hwio_records_low && record->high <= hwio_records_high);
		last = record->high;
		is_any[record->state] = true;
		for (int file = 0; file < FILES; file++)
			references[file] += record->file == files[file];
		for (uintptr_t at = record->low; at < record->high; at++)
			found[at - BASE] = (struct byte){
				record->file, record->offset + (off_t)(at - record->low), record->state};
	}
	CHECK(!hwio_record_at(hwio_record_count()));
	for (int file = 0; file < FILES; file++)
		CHECK(files[file]->references == references[file] + 1);
	for (int state = 0; state < 3; state++)
		CHECK(hwio_records_any((enum hwio_state)state) == is_any[state]);
	for (size_t i = 0; i < BYTES; i++)
		CHECK(is_same(&found[i], &model[i]));
	uintptr_t address = BASE + random_below(BYTES);
	const struct hwio_record *next = hwio_record_at(hwio_record_find(address));
	for (size_t i = address - BASE; i < BYTES; i++)
		CHECK(model[i].file == NULL || (next && next->low <= BASE + i));
	CHECK(!next || next->high > address);
}

static void cut(size_t low, size_t high)
{
	hwio_record_cut(BASE + low, BASE + high);
	memset(&model[low], 0, (high - low) * sizeof(*model));
}

/* Cuts several ranges at once. */
static void cut_several(void)
{
	struct hwio_range ranges[HWIO_CUT_MAX];
	size_t count = 0, most = 1 + random_below(HWIO_CUT_MAX);
	for (size_t low = random_below(BYTES); low < BYTES && count < most; low += random_below(24)) {
		size_t high = low + 1 + random_below(BYTES - low < 16 ? BYTES - low : 16);
		memset(&model[low], 0, (high - low) * sizeof(*model));
		ranges[count++] = (struct hwio_range){BASE + low, BASE + high};
		low = high;
	}
	hwio_records_cut(ranges, count);
}

static void add(size_t low, size_t high)
{
	/* Few offsets and files, so that many records continue their neighbours. */
	struct hwio_record record = {.low = BASE + low,
		.high = BASE + high,
		.file = files[random_below(FILES)],
		.state = (enum hwio_state)random_below(2),
		.offset = (off_t)(low + 1000 * random_below(2))};
	CHECK(hwio_record_add(&record));
	for (size_t i = low; i < high; i++)
		model[i] = (struct byte){record.file, record.offset + (off_t)(i - low), record.state};
}

static void run(void)
{
	for (round_number = 0; round_number < ROUNDS; round_number++) {
		size_t low = random_below(BYTES), high = low + 1 + random_below(BYTES - low);
		if (random_below(4))
			high = low + 1 + random_below(high - low < 24 ? high - low : 24);
		cut(low, high);
		if (random_below(3))
			add(low, high);
		if (random_below(20) == 0)
			cut_several();
		compare();
	}
	cut(0, BYTES);
	compare();
}

/* A full table accepts no more records, and loses only what a cut leaves behind itself. */
static void fill(void)
{
	struct hwio_record record = {.file = files[0], .state = HWIO_PEEKED};
	for (size_t i = 0; i < HWIO_RECORDS_MAX; i++) {
		record.low = BASE + 16 * i;
		record.high = record.low + 8;
		CHECK(hwio_record_add(&record));
	}
	record.low = BASE + 8;
	record.high = record.low + 4;
	record.offset = 100;
	CHECK(!hwio_record_add(&record) && hwio_record_count() == HWIO_RECORDS_MAX);
	hwio_record_cut(BASE + 2, BASE + 4);
	CHECK(hwio_record_count() == HWIO_RECORDS_MAX && hwio_record_at(0)->high == BASE + 2);
	CHECK(hwio_record_at(1)->low == BASE + 16 && hwio_record_at(1)->offset == 0);
	/* A record that continues another needs no space. */
	record = (struct hwio_record){
		.low = BASE + 2, .high = BASE + 4, .file = files[0], .state = HWIO_PEEKED, .offset = 2};
	CHECK(hwio_record_add(&record) && hwio_record_at(0)->high == BASE + 4);
	struct hwio_range ranges[HWIO_CUT_MAX];
	for (size_t i = 0; i < HWIO_CUT_MAX; i++)
		ranges[i] = (struct hwio_range){BASE + 16 * i + 2, BASE + 16 * i + 4};
	hwio_records_cut(ranges, HWIO_CUT_MAX);
	CHECK(hwio_record_count() == HWIO_RECORDS_MAX &&
		hwio_record_at(HWIO_CUT_MAX - 1)->high == ranges[HWIO_CUT_MAX - 1].low);
	CHECK(hwio_record_at(HWIO_CUT_MAX)->low == BASE + 16 * HWIO_CUT_MAX);
	hwio_record_cut(0, UINTPTR_MAX);
	CHECK(hwio_record_count() == 0 && files[0]->references == 1);
}

int main(void)
{
	random_start();
	hwio_file_start();
	for (int file = 0; file < FILES; file++) {
		FILE *scratch = tmpfile();
		struct stat status;
		CHECK(scratch && fstat(fileno(scratch), &status) == 0);
		files[file] = hwio_file_of(fileno(scratch), &status);
		CHECK(files[file]);
	}
	for (int i = 0; i < RUNS; i++)
		run();
	fill();
	return 0;
}
