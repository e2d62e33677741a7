// Conway's Game of Life: rank 0 reads the cells (bytes; the lowest bit counts) with an ifstream and scatters rows. The
// ranks exchange halos for some generations. Rank 0 gathers the rows and writes them with an ofstream.
//
//   life --in FILE --out FILE [--rows N] [--columns N] [--generations N] [--twin]
//
// The plane is a torus. --twin: each rank reads and writes its own rows, collectively.
#include "../c/program.h"

#include <fstream>
#include <string>
#include <vector>

using Cells = std::vector<char>;

static long rows, columns;
static std::vector<int> counts, displs;

static void divide()
{
	for (int i = 0; i < size; i++) {
		counts.push_back(static_cast<int>(part(rows, size, i) * columns));
		displs.push_back(static_cast<int>(before(rows, size, i) * columns));
	}
}

// The own rows lie behind a halo row, and before another.
static char *own(Cells &cells)
{
	return cells.data() + columns;
}

static void read_naive(const std::string &path, Cells &cells)
{
	Cells all;

	if (rank == 0) {
		std::ifstream in(path, std::ios::binary);

		all.resize(static_cast<size_t>(rows * columns));
		if (!in.read(all.data(), static_cast<std::streamsize>(all.size())))
			fail(path.c_str());
	}
	MPI_Scatterv(all.data(), counts.data(), displs.data(), MPI_CHAR, own(cells), counts[rank], MPI_CHAR, 0,
		MPI_COMM_WORLD);
}

static void write_naive(const std::string &path, Cells &cells)
{
	Cells all(rank ? 0 : static_cast<size_t>(rows * columns));

	MPI_Gatherv(own(cells), counts[rank], MPI_CHAR, all.data(), counts.data(), displs.data(), MPI_CHAR, 0,
		MPI_COMM_WORLD);
	if (rank == 0) {
		std::ofstream out(path, std::ios::binary);

		if (!out.write(all.data(), static_cast<std::streamsize>(all.size())) || !out.flush())
			fail(path.c_str());
	}
}

static void twin(const std::string &path, Cells &cells, bool writes)
{
	MPI_File file;
	int mode = writes ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDONLY;

	if (MPI_File_open(MPI_COMM_WORLD, path.c_str(), mode, MPI_INFO_NULL, &file) != MPI_SUCCESS)
		fail(path.c_str());
	if (writes) {
		MPI_File_set_size(file, 0);
		MPI_File_write_at_all(file, displs[rank], own(cells), counts[rank], MPI_CHAR, MPI_STATUS_IGNORE);
	} else {
		MPI_File_read_at_all(file, displs[rank], own(cells), counts[rank], MPI_CHAR, MPI_STATUS_IGNORE);
	}
	MPI_File_close(&file);
}

static void exchange_halos(Cells &cells, long height)
{
	int up = (rank + size - 1) % size, down = (rank + 1) % size, width = static_cast<int>(columns);
	char *first = own(cells), *last = own(cells) + (height - 1) * columns;

	MPI_Sendrecv(first, width, MPI_CHAR, up, 1, last + columns, width, MPI_CHAR, down, 1, MPI_COMM_WORLD,
		MPI_STATUS_IGNORE);
	MPI_Sendrecv(last, width, MPI_CHAR, down, 2, cells.data(), width, MPI_CHAR, up, 2, MPI_COMM_WORLD,
		MPI_STATUS_IGNORE);
}

static void live(Cells &cells, Cells &next, long height)
{
	for (long row = 1; row <= height; row++)
		for (long column = 0; column < columns; column++) {
			int neighbours = 0;

			for (long y = row - 1; y <= row + 1; y++)
				for (long x = column + columns - 1; x <= column + columns + 1; x++)
					neighbours += cells[static_cast<size_t>(y * columns + x % columns)] & 1;
			int alive = cells[static_cast<size_t>(row * columns + column)] & 1;
			neighbours -= alive;
			next[static_cast<size_t>(row * columns + column)] = neighbours == 3 || (alive && neighbours == 2);
		}
	cells.swap(next);
}

int main(int argc, char **argv)
{
	start(&argc, &argv);
	rows = number(argc, argv, "rows", 512);
	columns = number(argc, argv, "columns", 512);
	divide();
	const std::string in = option(argc, argv, "in", "life.in"), out = option(argc, argv, "out", "life.out");
	const bool by_hand = flag(argc, argv, "twin");
	const long height = part(rows, size, rank);
	Cells cells(static_cast<size_t>((height + 2) * columns)), next(cells.size());

	double at = begin();
	if (by_hand)
		twin(in, cells, false);
	else
		read_naive(in, cells);
	read_s += MPI_Wtime() - at;
	for (long left = number(argc, argv, "generations", 3); left > 0; left--) {
		exchange_halos(cells, height);
		live(cells, next, height);
	}
	count(own(cells), static_cast<size_t>(counts[rank]));
	at = begin();
	if (by_hand)
		twin(out, cells, true);
	else
		write_naive(out, cells);
	write_s += MPI_Wtime() - at;
	return finish();
}
