//! The front's generated files: its stubs, and the numbers of their slots.

use std::fmt::Write;

use super::table::Function;

/// The front's stubs and the names of their slots: those of MPI's functions that every MPI has, each as `MPI_X` and
/// `PMPI_X`, and then the C library's; and the names of MPI's other functions.
pub fn stubs(mpi: &[Function], libc: &[Function]) -> String {
    let mut text = String::from("/* Generated from mpiio/calls. */\n#include \"stub.h\"\n\n");
    let (mut names, mut stubs, mut notice, mut slots) = (String::new(), String::new(), String::new(), 0);
    let mut stub = |name: &str, count: usize| {
        let list = |one: fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join(", ");
        let (kinds, parameters) = match count {
            0 => ("void".into(), "void".into()),
            _ => (list(|_| "long".into()), list(|at| format!("long a{at}"))),
        };
        let arguments = list(|at| format!("a{at}"));
        let _ = writeln!(text, "HWIO_STUB({slots}, \"{name}\", ({kinds}), ({parameters}), ({arguments}))");
        let _ = writeln!(names, "\t\"{name}\",");
        let _ = writeln!(stubs, "\t(void *)hwio_stub_{slots},");
        slots += 1;
        slots
    };
    let mut mpi_slots = 0;
    for function in mpi {
        if function.is_new {
            let _ = writeln!(notice, "\t\"P{}\",", function.name);
        } else {
            stub(&function.name, function.parameters.len());
            mpi_slots = stub(&format!("P{}", function.name), function.parameters.len());
        }
        if function.is_large {
            let _ = writeln!(notice, "\t\"P{}_c\",", function.name);
        }
    }
    for function in libc {
        stub(&function.name, function.parameters.len());
    }
    let _ = write!(
        text,
        "\nconst unsigned int hwio_slots_of_mpi = {mpi_slots}, hwio_slots_all = {slots};\nvoid *hwio_slots[{slots}];\n\
         const char *const hwio_names[{slots}] = {{\n{names}}};\n\
         void *const hwio_stubs[{slots}] = {{\n{stubs}}};\n\n\
         const char *const hwio_new_names[] = {{\n{notice}}};\n\
         const unsigned int hwio_new_count = sizeof(hwio_new_names) / sizeof(hwio_new_names[0]);\n"
    );
    text
}

/// The numbers of the slots that the front's own code uses.
pub fn slots(mpi: &[Function], libc: &[Function]) -> String {
    let before = 2 * mpi.iter().filter(|function| !function.is_new).count();
    let mut text =
        String::from("/* Generated from mpiio/calls. */\n#ifndef HWIO_SLOTS_H\n#define HWIO_SLOTS_H\n\nenum {\n");
    for (at, function) in libc.iter().enumerate() {
        let _ = writeln!(text, "\tHWIO_SLOT_{} = {},", function.name, before + at);
    }
    text.push_str("};\n\n#endif\n");
    text
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    const MPI: &str = "int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) large\n\
        int MPI_Igatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, \
        const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, \
        MPI_Request *request) large\n\
        int MPI_Send_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, \
        MPI_Request *request)\n\
        int MPI_Session_init(MPI_Info info) new\n\
        int MPI_Comm_flush_buffer(MPI_Comm comm) new\n";

    #[test]
    fn the_front_exports_what_every_mpi_has() {
        let (mpi, libc) = (table::parse(MPI).unwrap(), table::parse("int close(int fd)").unwrap());
        let text = stubs(&mpi, &libc);
        let has = |part: &str| assert!(text.contains(part), "{part} is not in {text}");
        has("HWIO_STUB(0, \"MPI_Send\", (long, long, long, long, long, long), (long a0, long a1, long a2, long a3, ");
        has("HWIO_STUB(1, \"PMPI_Send\", ");
        has("HWIO_STUB(2, \"MPI_Igatherv\", ");
        has("HWIO_STUB(6, \"close\", (long), (long a0), (a0))\n");
        has("hwio_slots_of_mpi = 6, hwio_slots_all = 7;");
        has(
            "hwio_new_names[] = {\n\t\"PMPI_Send_c\",\n\t\"PMPI_Igatherv_c\",\n\t\"PMPI_Session_init\",\n\t\"PMPI_Comm_flush_buffer\",\n};",
        );
        assert!(slots(&mpi, &libc).contains("HWIO_SLOT_close = 6,"));
    }
}
