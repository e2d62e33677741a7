/*
 * A rank of an MPI job handles messages that another rank has sent: hints, offers, verdicts, and the parts of a
 * scatter, by the core's own functions over an MPI that has nothing but this message. AddressSanitizer detects what is
 * read or written beyond message and buffer; what reaches MPI and the file is checked here.
 */
#include <errno.h>
#include <string.h>

#include "intercept/collectives/scatter.c"
#include "intercept/messages/receive.h"
#include "transfer/envelope.h"
#include "transfer/incoming.h"
#include "transfer/offer.h"
#include "transfer/outstanding.h"

#define EDIT_BYTES 10
#define FILE_BYTES 65536
#define DATA_BYTES 20000
#define RANKS 4
#define COMM 5
/* MPI fails once it has delivered so many messages, or so many bytes: their sizes are the input's. */
#define RECEIVED_MAX 64
#define RECEIVED_BYTES_MAX (16UL << 20)

enum what { HINT, OFFER, VERDICT, PART, WHATS };

static struct hwio_identity identity;
static char content[FILE_BYTES];
static int file;
static struct hwio_comm known = {.is_usable = true, .rank = 0, .size = RANKS};
static int world_ranks[RANKS] = {0, 1, 2, 3};
static double now;
static int received_count;
static size_t received_bytes;
static volatile unsigned int sink;
/* The message that arrives next, and whether its parts are those of a scatter. */
static const char *arriving;
static size_t arriving_bytes;
static uint32_t reply_kind;

#define EXPECT(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

double hwio_seconds(void)
{
	return now += 1;
}

static void read_all(const void *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		sink += ((const unsigned char *)memory)[i];
}

static int send_to(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
	EXPECT(count >= 0 && type == MPI_BYTE && peer >= 0 && peer < RANKS && tag > 0 && tag < 32768 &&
		comm == hwio_control);
	read_all(buffer, (size_t)count);
	return MPI_SUCCESS;
}

static int start_send(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	*request = 1;
	return send_to(buffer, count, type, peer, tag, comm);
}

static int receive(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status *status)
{
	(void)type;
	(void)status;
	EXPECT(count >= 0 && peer >= 0 && peer < RANKS && comm == hwio_control);
	received_bytes += (size_t)count;
	if (++received_count > RECEIVED_MAX || received_bytes > RECEIVED_BYTES_MAX)
		return MPI_ERR_OTHER;
	memset(buffer, 0, (size_t)count);
	if ((size_t)count == sizeof(struct hwio_reply) && tag >= HWIO_TAG_REPLY)
		((struct hwio_reply *)buffer)->kind = (int32_t)reply_kind;
	return MPI_SUCCESS;
}

static int start_receive(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	(void)type;
	(void)tag;
	EXPECT((size_t)count >= arriving_bytes && peer >= 0 && peer < RANKS && comm == hwio_control);
	memcpy(buffer, arriving, arriving_bytes);
	*request = 1;
	return MPI_SUCCESS;
}

/* All ranks contribute what this one does. */
static int reduce_to_all(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	(void)op;
	(void)comm;
	EXPECT(type == MPI_INT64_T);
	memcpy(to, from, (size_t)count * sizeof(int64_t));
	return MPI_SUCCESS;
}

static int test(MPI_Request *request, int *flag, MPI_Status *status)
{
	(void)status;
	*request = MPI_REQUEST_NULL;
	*flag = 1;
	return MPI_SUCCESS;
}

static int test_all(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
	(void)count;
	(void)requests;
	(void)statuses;
	*flag = 1;
	return MPI_SUCCESS;
}

static int get_count(const MPI_Status *status, MPI_Datatype type, int *count)
{
	(void)type;
	*count = (int)status->bytes;
	return MPI_SUCCESS;
}

static int set_elements(MPI_Status *status, MPI_Datatype type, MPI_Count count)
{
	(void)type;
	EXPECT(count >= 0);
	status->bytes = count;
	return MPI_SUCCESS;
}

static int get_envelope(MPI_Datatype type, int *integers, int *addresses, int *types, int *combiner)
{
	(void)type;
	*integers = *addresses = *types = 0;
	*combiner = MPI_COMBINER_NAMED;
	return MPI_SUCCESS;
}

static int get_extent(MPI_Datatype type, MPI_Aint *lower, MPI_Aint *extent)
{
	(void)type;
	*lower = 0;
	*extent = 1;
	return MPI_SUCCESS;
}

static int get_size(MPI_Datatype type, MPI_Count *size)
{
	(void)type;
	*size = 1;
	return MPI_SUCCESS;
}

static int broadcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	(void)type;
	(void)root;
	(void)comm;
	if ((size_t)count == sizeof(struct order) && arriving_bytes >= sizeof(struct order))
		memcpy(buffer, arriving, sizeof(struct order));
	return MPI_SUCCESS;
}

static int scatter_one(const void *send, int send_count, MPI_Datatype send_type, void *receive_into, int count,
	MPI_Datatype type, int root, MPI_Comm comm)
{
	(void)send;
	(void)send_count;
	(void)send_type;
	(void)type;
	(void)root;
	(void)comm;
	memset(receive_into, 0, (size_t)count);
	if ((size_t)count == sizeof(struct part) && arriving_bytes == sizeof(struct order) + sizeof(struct part))
		memcpy(receive_into, arriving + sizeof(struct order), sizeof(struct part));
	return MPI_SUCCESS;
}

static int gather_one(const void *send, int count, MPI_Datatype send_type, void *receive_into, int receive_count,
	MPI_Datatype type, int root, MPI_Comm comm)
{
	(void)send_type;
	(void)receive_into;
	(void)receive_count;
	(void)type;
	(void)root;
	(void)comm;
	read_all(send, (size_t)count);
	return MPI_SUCCESS;
}

static int reduce(const void *send, void *result, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
	(void)send;
	(void)result;
	(void)count;
	(void)type;
	(void)op;
	(void)root;
	(void)comm;
	return MPI_SUCCESS;
}

static int call_handler(MPI_Comm comm, int code)
{
	(void)comm;
	(void)code;
	return MPI_SUCCESS;
}

static int get_attribute(MPI_Comm comm, int key, void *value, int *is_found)
{
	(void)comm;
	(void)key;
	*(struct hwio_comm **)value = &known;
	*is_found = 1;
	return MPI_SUCCESS;
}

static int create_key(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *forget, int *key, void *extra)
{
	(void)copy;
	(void)forget;
	(void)extra;
	*key = 1;
	return MPI_SUCCESS;
}

/* No other file is opened, whatever a message contains. */
static int open_one(const char *path, int flags, ...)
{
	char link[32];
	EXPECT(path[0] == '/');
	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	errno = ENOENT;
	return strcmp(path, "/f") == 0 ? open(link, flags) : -1;
}

static ssize_t read_vector(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	EXPECT(offset >= 0);
	return preadv(descriptor, pieces, count, offset);
}

/* The file stays as it is. */
static ssize_t write_vector(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	ssize_t bytes = 0;
	(void)descriptor;
	for (int i = 0; i < count; i++) {
		read_all(pieces[i].iov_base, pieces[i].iov_len);
		bytes += (ssize_t)pieces[i].iov_len;
	}
	EXPECT(offset >= 0 && bytes <= INT64_MAX - offset);
	return bytes;
}

static int start_broadcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
	*request = MPI_REQUEST_NULL;
	return broadcast(buffer, count, type, root, comm);
}

static int start_barrier(MPI_Comm comm, MPI_Request *request)
{
	(void)comm;
	*request = MPI_REQUEST_NULL;
	return MPI_SUCCESS;
}

__attribute__((constructor)) static void start(void)
{
	struct stat status;
	hwio_real = (struct hwio_real){
		.MPI_Send = send_to,
		.MPI_Isend = start_send,
		.MPI_Recv = receive,
		.MPI_Irecv = start_receive,
		.MPI_Test = test,
		.MPI_Testall = test_all,
		.MPI_Get_count = get_count,
		.MPI_Status_set_elements_x = set_elements,
		.MPI_Type_get_envelope = get_envelope,
		.MPI_Type_get_extent = get_extent,
		.MPI_Type_get_true_extent = get_extent,
		.MPI_Type_size_x = get_size,
		.MPI_Bcast = broadcast,
		.MPI_Scatter = scatter_one,
		.MPI_Gather = gather_one,
		.MPI_Reduce = reduce,
		.MPI_Allreduce = reduce_to_all,
		.MPI_Ibcast = start_broadcast,
		.MPI_Ibarrier = start_barrier,
		.MPI_Comm_call_errhandler = call_handler,
		.MPI_Comm_get_attr = get_attribute,
		.MPI_Comm_create_keyval = create_key,
	};
	known.world_ranks = world_ranks;
	hwio_control = 9;
	hwio_ranks = RANKS;
	hwio_file_start();
	hwio_comm_start();
	setenv("HEADWATER_IO_MODEL", "always", 1);
	hwio_model_start();
	hwio_mode = HWIO_AUTO;
	hwio_bytes_min = 4096;
	/* Everywhere the same messages. */
	hwio_page_bytes = 4096;
	memcpy(hwio_cookie, "cookie of a job", HWIO_COOKIE_BYTES);
	for (size_t i = 0; i < FILE_BYTES; i++)
		content[i] = (char)(i * 7 + i / 251);
	file = memfd_create("file", MFD_CLOEXEC);
	EXPECT(file >= 0 && write(file, content, FILE_BYTES) == FILE_BYTES && fstat(file, &status) == 0);
	EXPECT(hwio_identity_of(file, &status, &identity));
	hwio_libc.open = open_one;
	hwio_libc.preadv = read_vector;
	hwio_libc.pwritev = write_vector;
}

/* The offset of the data in the file, and the data. */
static struct hwio_runs true_runs(void)
{
	return (struct hwio_runs){.count = 2,
		.pattern = 1,
		.repetitions = 2,
		.apart = 10000,
		.run = {{100, 3000, 5000, 2}, {30000, 8000, 8000, 1}}};
}

static bool has_data(const char *buffer)
{
	for (int i = 0; i < 4; i++)
		if (memcmp(buffer + 3000 * i, content + 100 + 5000 * i, 3000) != 0)
			return false;
	return memcmp(buffer + 12000, content + 30000, 8000) == 0;
}

union message {
	struct hwio_hint hint;
	struct hwio_offer offer;
	struct hwio_verdict verdict;
	struct {
		struct order order;
		struct part part;
	} scatter;
	uint32_t words[4096];
};

/* A message as it is sent. Its length. */
static size_t compose(union message *message, enum what what)
{
	struct hwio_envelope envelope = {
		.kind = what == HINT ? HWIO_HINT : HWIO_OFFER, .sender = 1, .id = 7, .bytes = DATA_BYTES};
	memcpy(envelope.cookie, hwio_cookie, HWIO_COOKIE_BYTES);
	switch (what) {
	case HINT:
		message->hint = (struct hwio_hint){
			envelope, .identity = identity, .path_bytes = 3, .runs = true_runs(), .path = "/f"};
		return hwio_hint_bytes(&message->hint);
	case OFFER:
		message->offer.envelope = envelope;
		return hwio_offer_bytes();
	case VERDICT:
		message->verdict = (struct hwio_verdict){.id = 7,
			.kind = HWIO_VERDICT_WRITE,
			.path_bytes = 3,
			.identity = identity,
			.runs = true_runs(),
			.path = "/f"};
		return sizeof(message->verdict);
	default:
		message->scatter.order = (struct order){
			.action = BY_FILE, .path_bytes = 3, .identity = identity, .path = "/f"};
		message->scatter.part = (struct part){DATA_BYTES, true_runs()};
		return sizeof(message->scatter);
	}
}

/* Takes a message of this length into a program's buffer of `room` bytes. Whether the buffer then has the file's
 * data. */
static bool take_message(enum what what, size_t bytes, size_t room, bool may_defer)
{
	/* In memory of their own length. */
	char *buffer = calloc(1, room ? room : 1);
	MPI_Status status = {.MPI_SOURCE = 1, .bytes = (long long)bytes};
	struct hwio_block block = {0, room};
	struct hwio_layout layout = {.buffer = buffer, .bytes = room, .count = 1, .blocks = &block};
	EXPECT(buffer);
	if (what == VERDICT) {
		hwio_offer_settle(7, &layout, 1, NULL);
	} else if (what == PART) {
		hwio_MPI_Scatter(NULL, 0, MPI_BYTE, buffer, (int)room, MPI_BYTE, 1, COMM);
		for (struct hwio_turn *turn = known.turns; turn; turn = turn->next)
			turn->skip = turn->fruitless = 0;
	} else if (bytes <= room) {
		memcpy(buffer, arriving, bytes);
		hwio_received(buffer, (MPI_Count)room, MPI_BYTE, COMM, &status, may_defer);
		hwio_incoming_fetch_all();
	}
	bool has = room >= DATA_BYTES && has_data(buffer);
	free(buffer);
	EXPECT(hwio_depth == 0 && !hwio_incoming_any() && !hwio_outstanding_any());
	return has;
}

/* The first byte selects the message, the second how the sender answers, two more the size of the buffer; edits
 * follow. */
int fuzz_mpiio_message(const unsigned char *data, size_t length)
{
	union message message = {.words = {0}};
	if (length < 4)
		return 1;
	enum what what = data[0] % WHATS;
	size_t room = what == VERDICT ? DATA_BYTES : (size_t)(data[2] | data[3] << 8);
	size_t bytes = compose(&message, what), cut = (length - 4) % EDIT_BYTES * 64;
	bool is_whole = length == 4;
	reply_kind = data[1] % 5;
	for (data += 4, length -= 4; length >= EDIT_BYTES; length -= EDIT_BYTES, data += EDIT_BYTES) {
		size_t word = (size_t)(data[0] | data[1] << 8) % (bytes / 4 - 1);
		memcpy(&message.words[word], data + 2, 8);
	}
	if (what != PART)
		bytes -= cut < bytes ? cut : 0;
	char *own = malloc(bytes);
	EXPECT(own);
	memcpy(own, &message, bytes);
	arriving = own;
	arriving_bytes = bytes;
	received_count = 0;
	received_bytes = 0;
	bool has = take_message(what, bytes, room, reply_kind & 1);
	arriving_bytes = 0;
	free(own);
	return has || !is_whole || room < DATA_BYTES || what == OFFER || what == VERDICT;
}
