! Arrays of several dimensions in files without formats: rank 0 reads one, all ranks change what is scattered of it, and
! rank 0 writes what it has gathered. Then rank 0 reads and writes by itself in forms that must stay as they are: beyond
! the end, records that are too short, sections, other byte orders, text, and with formats.
!
! access --access stream|sequential|direct --dir DIR [--rows N] [--columns N]
!
! Prints what it has read; all its files are in DIR.
program access_kinds
  use mpi
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  integer :: me, ranks, rows, columns, own, code
  character(len=1024) :: access, dir
  real(real64), allocatable :: all(:, :), mine(:, :)

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  access = 'stream'
  dir = '.'
  rows = 301
  columns = 1024
  call read_options()
  own = columns / ranks
  columns = own * ranks
  allocate(mine(rows, own), all(rows, merge(columns, 1, me == 0)))
  if (me == 0) then
    call fill()
    call write_array('in')
    all = -1
    call read_array()
  end if
  call MPI_Scatter(all, rows * own, MPI_DOUBLE_PRECISION, mine, rows * own, MPI_DOUBLE_PRECISION, 0, &
    MPI_COMM_WORLD, code)
  call report('scattered', mine)
  mine = 3 * mine + me
  call MPI_Gather(mine, rows * own, MPI_DOUBLE_PRECISION, all, rows * own, MPI_DOUBLE_PRECISION, 0, &
    MPI_COMM_WORLD, code)
  if (me == 0) then
    call write_array('out')
    call report('gathered', all)
    call fill()
    call beyond()
    call records()
    call pieces()
    call texts()
  end if
  call MPI_Finalize(code)

contains

  subroutine read_options()
    integer :: word
    character(len=1024) :: name, value

    do word = 1, command_argument_count() - 1
      call get_command_argument(word, name)
      call get_command_argument(word + 1, value)
      select case (name)
      case ('--access')
        access = value
      case ('--dir')
        dir = value
      case ('--rows')
        read (value, *) rows
      case ('--columns')
        read (value, *) columns
      end select
    end do
  end subroutine

  subroutine fill()
    integer :: i, j

    do j = 1, columns
      do i = 1, rows
        all(i, j) = i + 1000.5_real64 * j
      end do
    end do
  end subroutine

  ! In the order of ranks, since only rank 0 prints.
  subroutine report(what, values)
    character(len=*), intent(in) :: what
    real(real64), intent(in) :: values(:, :)
    integer(int64) :: sums(ranks), one
    integer :: i, j

    one = size(values)
    do j = 1, size(values, 2)
      do i = 1, size(values, 1)
        one = ieor(ishftc(one, 7), transfer(values(i, j), one))
      end do
    end do
    sums = one
    if (what == 'scattered') call MPI_Gather(one, 1, MPI_INTEGER8, sums, 1, MPI_INTEGER8, 0, MPI_COMM_WORLD, code)
    if (me == 0) print '(a, 1x, 16z17.16)', what, sums
  end subroutine

  function path(name)
    character(len=*), intent(in) :: name
    character(len=:), allocatable :: path

    path = trim(dir) // '/' // name
  end function

  subroutine write_array(name)
    character(len=*), intent(in) :: name
    integer :: unit

    select case (access)
    case ('stream')
      open (newunit=unit, file=path(name), access='stream', form='unformatted', status='replace')
      write (unit) rows, columns, all
    case ('sequential')
      open (newunit=unit, file=path(name), access='sequential', form='unformatted', status='replace')
      write (unit) rows, columns
      write (unit) all
      write (unit) 'the end'
    case ('direct')
      open (newunit=unit, file=path(name), access='direct', form='unformatted', recl=8 * rows * columns, &
        status='replace')
      write (unit, rec=2) all
    end select
    close (unit)
  end subroutine

  subroutine read_array()
    integer :: unit, sizes(2)
    character(len=7) :: text

    select case (access)
    case ('stream')
      open (newunit=unit, file=path('in'), access='stream', form='unformatted', status='old', action='read')
      read (unit) sizes, all
      print *, sizes
    case ('sequential')
      open (newunit=unit, file=path('in'), access='sequential', form='unformatted', status='old', action='read')
      read (unit) sizes
      read (unit) all
      read (unit) text
      print *, sizes, text
    case ('direct')
      open (newunit=unit, file=path('in'), access='direct', form='unformatted', recl=8 * rows * columns, &
        status='old', action='read')
      read (unit, rec=2) all
    end select
    close (unit)
  end subroutine

  ! Of a file that ends within the array, the array gets what there is.
  subroutine beyond()
    integer :: unit, status, position
    character(len=200) :: message

    open (newunit=unit, file=path('in'), access='stream', form='unformatted', status='old', action='read')
    all = -2
    message = ''
    read (unit, pos=8 * rows * (columns / 2) + 5, iostat=status, iomsg=message) all
    inquire (unit, pos=position)
    print *, 'beyond', status, trim(message), position
    call report('beyond', all)
    close (unit)
  end subroutine

  ! Records of direct access that have no room for all of the array, or more.
  subroutine records()
    integer :: unit, status, length

    call fill()
    inquire (iolength=length) all
    print *, 'length', length
    open (newunit=unit, file=path('short'), access='direct', form='unformatted', recl=8 * rows * columns - 4096, &
      status='replace')
    write (unit, rec=1, iostat=status) all
    print *, 'short', status
    write (unit, rec=2, iostat=status) all(:, 2:columns - 1)
    print *, 'long', status
    close (unit)
    open (newunit=unit, file=path('short'), access='direct', form='unformatted', recl=8 * rows * columns - 4096, &
      status='old', action='read')
    all = -3
    read (unit, rec=2, iostat=status) all
    print *, 'short', status
    call report('short', all)
    close (unit)
  end subroutine

  ! Sections, more dimensions, and arrays one after the other in one statement.
  subroutine pieces()
    real(real64), allocatable :: cube(:, :, :), other(:, :, :)
    integer :: unit, i

    allocate(cube(rows, columns / 4, 4), other(0:rows - 1, columns / 4, 4))
    call fill()
    cube = reshape(all, shape(cube))
    open (newunit=unit, file=path('pieces'), access='stream', form='unformatted', status='replace')
    write (unit) all(1:rows:2, :), 7, cube, all(:, 3:columns - 3), cube(:, :, 2:3), cube(2:rows, :, :)
    close (unit)
    all = -4
    other = -4
    open (newunit=unit, file=path('pieces'), access='stream', form='unformatted', status='old', action='read')
    read (unit) all(1:rows:2, :), i, other, all(:, 3:columns - 3), cube(:, :, 3:2:-1), cube(2:rows, :, :)
    close (unit)
    print *, i
    call report('pieces', all)
    call report('cube', reshape(cube, shape(all)))
    call report('other', reshape(other, shape(all)))
    open (newunit=unit, file=path('swapped'), access='sequential', form='unformatted', convert='big_endian', &
      status='replace')
    write (unit) cube, all
    rewind (unit)
    all = -5
    read (unit) other, all
    close (unit)
    call report('swapped', all)
    call report('swapped', reshape(other, shape(all)))
  end subroutine

  subroutine texts()
    character(len=37) :: lines(200, 50), back(200, 50)
    real(real64) :: few(40, 30), again(40, 30)
    integer :: unit, i, j

    do j = 1, 50
      do i = 1, 200
        write (lines(i, j), '(a, i0, a, i0)') 'line ', i, ' of ', j
      end do
    end do
    open (newunit=unit, file=path('text'), access='stream', form='unformatted', status='replace')
    write (unit) lines
    read (unit, pos=1) back
    close (unit)
    print *, all_same(lines, back), back(200, 50)
    few = reshape([(sqrt(1.0_real64 * i), i = 1, size(few))], shape(few))
    open (newunit=unit, file=path('formatted'), form='formatted', status='replace')
    write (unit, *) few
    write (unit, '(5es24.16)') few
    rewind (unit)
    read (unit, *) again
    close (unit)
    call report('formatted', again)
  end subroutine

  logical function all_same(one, other)
    character(len=*), intent(in) :: one(:, :), other(:, :)
    integer :: i, j

    all_same = .true.
    do j = 1, size(one, 2)
      do i = 1, size(one, 1)
        all_same = all_same .and. one(i, j) == other(i, j)
      end do
    end do
  end function

end program
