! MPI_ISCATTER of what rank 0 has read, and MPI_IGATHER of what it writes, by mpi_f08. Each rank prints checksums.
!
!   later DIRECTORY
program later
  use mpi_f08
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  integer, parameter :: part = 40009, rounds = 6
  real(real64), allocatable, asynchronous :: all(:), mine(:)
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  integer :: rank, ranks, round, unit
  logical :: is_done
  character(len=1024) :: directory
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, directory)
  allocate (all(part*ranks), mine(part))
  if (rank == 0) then
    call random_seed(put=spread(7, 1, 64))
    call random_number(all)
    open (newunit=unit, file=trim(directory)//'/in', access='stream', action='write')
    write (unit) all
    close (unit)
  end if
  do round = 1, rounds
    if (rank == 0) then
      open (newunit=unit, file=trim(directory)//'/in', access='stream', action='read')
      read (unit) all
      close (unit)
    end if
    call MPI_Iscatter(all, part, MPI_DOUBLE_PRECISION, mine, part, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, request)
    if (mod(round, 2) == 0) then
      call MPI_Wait(request, status)
    else
      is_done = .false.
      do while (.not. is_done)
        call MPI_Test(request, is_done, MPI_STATUS_IGNORE)
      end do
    end if
    print '(a,i0,a,i0,a,es22.15)', 'rank ', rank, ' round ', round, ': ', sum(mine)
    mine = mine + round
    call MPI_Igather(mine, part, MPI_DOUBLE_PRECISION, all, part, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (rank == 0) then
      open (newunit=unit, file=trim(directory)//'/out', access='stream', action='write')
      write (unit) all
      close (unit)
    end if
  end do
  call MPI_Finalize()
end program later
