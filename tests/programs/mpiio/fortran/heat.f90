! Heat in a plane: rank 0 reads the temperatures (doubles) from a file of stream access and scatters columns. The ranks
! exchange halos for some steps. Rank 0 gathers the columns and writes them.
!
!   heat --in FILE --out FILE [--rows N] [--columns N] [--steps N] [--twin]
!
! --twin: each rank reads and writes its own columns, collectively. Prints what the programs in C print.
program heat
  use mpi
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  integer :: me, ranks, rows, columns, own, first, steps, step
  integer :: code
  logical :: by_hand
  character(len=1024) :: in, out
  real(real64), allocatable :: all(:, :), mine(:, :), next(:, :)
  real(real64) :: at, read_s, write_s, slowest(2)
  integer(int64) :: checksum, total

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  in = 'heat.in'
  out = 'heat.out'
  rows = 512
  columns = 512
  steps = 3
  by_hand = .false.
  call read_options()
  own = columns / ranks
  first = own * me
  columns = own * ranks
  allocate(mine(rows, 0:own + 1), next(rows, 0:own + 1))
  mine = 0
  if (me == 0) then
    allocate(all(rows, columns))
  else
    allocate(all(1, 1))
  end if

  call MPI_Barrier(MPI_COMM_WORLD, code)
  at = MPI_Wtime()
  if (by_hand) then
    call read_twin()
  else
    call read_naive()
  end if
  read_s = MPI_Wtime() - at
  do step = 1, steps
    call exchange_halos()
    call conduct()
  end do
  checksum = sum_of(mine(:, 1:own))
  call MPI_Barrier(MPI_COMM_WORLD, code)
  at = MPI_Wtime()
  if (by_hand) then
    call write_twin()
  else
    call write_naive()
  end if
  write_s = MPI_Wtime() - at
  call MPI_Reduce(checksum, total, 1, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, code)
  call MPI_Reduce([read_s, write_s], slowest, 2, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, code)
  if (me == 0) then
    print '(a, z16.16, 2(a, f0.6))', 'checksum=', total, ' read_s=', slowest(1), ' write_s=', slowest(2)
  end if
  call MPI_Finalize(code)

contains

  subroutine read_options()
    integer :: word
    character(len=1024) :: name, value

    do word = 1, command_argument_count()
      call get_command_argument(word, name)
      call get_command_argument(min(word + 1, command_argument_count()), value)
      select case (name)
      case ('--in')
        in = value
      case ('--out')
        out = value
      case ('--rows')
        read (value, *) rows
      case ('--columns')
        read (value, *) columns
      case ('--steps')
        read (value, *) steps
      case ('--twin')
        by_hand = .true.
      end select
    end do
  end subroutine

  subroutine read_naive()
    integer :: unit

    if (me == 0) then
      open (newunit=unit, file=trim(in), access='stream', form='unformatted', status='old', action='read')
      read (unit) all
      close (unit)
    end if
    call MPI_Scatter(all, rows * own, MPI_DOUBLE_PRECISION, mine(1, 1), rows * own, MPI_DOUBLE_PRECISION, 0, &
    MPI_COMM_WORLD, code)
  end subroutine

  subroutine write_naive()
    integer :: unit

    call MPI_Gather(mine(1, 1), rows * own, MPI_DOUBLE_PRECISION, all, rows * own, MPI_DOUBLE_PRECISION, 0, &
    MPI_COMM_WORLD, code)
    if (me == 0) then
      open (newunit=unit, file=trim(out), access='stream', form='unformatted', status='replace', action='write')
      write (unit) all
      close (unit)
    end if
  end subroutine

  subroutine read_twin()
    integer :: file

    call MPI_File_open(MPI_COMM_WORLD, trim(in), MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
    call MPI_File_read_at_all(file, 8_MPI_OFFSET_KIND * rows * first, mine(1, 1), rows * own, MPI_DOUBLE_PRECISION, &
      MPI_STATUS_IGNORE, code)
    call MPI_File_close(file, code)
  end subroutine

  subroutine write_twin()
    integer :: file

    call MPI_File_open(MPI_COMM_WORLD, trim(out), MPI_MODE_WRONLY + MPI_MODE_CREATE, MPI_INFO_NULL, file, code)
    call MPI_File_set_size(file, 0_MPI_OFFSET_KIND, code)
    call MPI_File_write_at_all(file, 8_MPI_OFFSET_KIND * rows * first, mine(1, 1), rows * own, MPI_DOUBLE_PRECISION, &
      MPI_STATUS_IGNORE, code)
    call MPI_File_close(file, code)
  end subroutine

  ! The first and the last rank have the outer temperature, 0, as one neighbour.
  subroutine exchange_halos()
    integer :: left, right

    left = me - 1
    if (me == 0) left = MPI_PROC_NULL
    right = me + 1
    if (me == ranks - 1) right = MPI_PROC_NULL
    call MPI_Sendrecv(mine(1, 1), rows, MPI_DOUBLE_PRECISION, left, 1, mine(1, own + 1), rows, MPI_DOUBLE_PRECISION, &
      right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
    call MPI_Sendrecv(mine(1, own), rows, MPI_DOUBLE_PRECISION, right, 2, mine(1, 0), rows, MPI_DOUBLE_PRECISION, &
      left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
  end subroutine

  subroutine conduct()
    integer :: i, j
    real(real64) :: above, below

    do j = 1, own
      do i = 1, rows
        above = 0
        below = 0
        if (i > 1) above = mine(i - 1, j)
        if (i < rows) below = mine(i + 1, j)
        next(i, j) = mine(i, j) + 0.1_real64 * (above + below + mine(i, j - 1) + mine(i, j + 1) - 4 * mine(i, j))
      end do
    end do
    mine(:, 1:own) = next(:, 1:own)
  end subroutine

  ! Depends on each value and its index, and wraps around.
  integer(int64) function sum_of(values)
    real(real64), intent(in) :: values(:, :)
    integer :: i, j

    sum_of = me
    do j = 1, size(values, 2)
      do i = 1, size(values, 1)
        sum_of = ieor(ishftc(sum_of, 7), transfer(values(i, j), sum_of))
      end do
    end do
    sum_of = iand(sum_of, int(z'00ffffffffffffff', int64))
  end function

end program
