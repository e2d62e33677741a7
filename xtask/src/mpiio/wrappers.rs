//! The C code that is made from the tables: a variant's `real.h` and `wrappers.c`.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};

use super::header::Functions;
use super::table::{Function, Parameter, Ranks, Role, Share, Use};

/// Which MPI a variant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// As `MPI_Get_library_version` begins.
    pub family: &'static str,
    pub major: u32,
    /// The macro of its mpi.h that is the number, as a C expression.
    pub macro_of_major: &'static str,
}

/// The library with the functions that the tables call `hand`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// The core.
    Core,
    /// They are generated, too, and call `hwio_trace` with their names: for tests of the front.
    Traced,
}

/// The text of a variant.
pub struct Variant<'a> {
    pub target: Target,
    pub header: &'a Functions,
    /// The library's variables that its constants are addresses of.
    pub globals: &'a [String],
    /// The MPI functions that it wraps, twins included.
    mpi: Vec<Function>,
    /// Those of them that the header lacks, and an MPI of the same family and number may have.
    undeclared: Vec<Function>,
    /// Whether it wraps all of the tables' newer functions, whatever the header has.
    has_all_new: bool,
    libc: &'a [Function],
    hand: Hand,
}

/// The MPI standard of which the tables have all functions, as arguments of `HWIO_STANDARD`.
const TABLES_STANDARD: &str = "5, 0";

/// Whether a function can be declared with the types of this header.
fn can_be_declared(function: &Function, header: &Functions) -> bool {
    let words = |kind: &str| -> Vec<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        kind.split(|c| !is_part(c)).filter(|word| word.starts_with("MPI_")).map(str::to_owned).collect()
    };
    let is_known = |word: &String| header.values().flatten().any(|parameter| words(&parameter.kind).contains(word));
    function.parameters.iter().flat_map(|parameter| words(&parameter.kind)).all(|word| is_known(&word))
}

/// The table's functions and their twins that this header has.
fn present(table: &[Function], header: &Functions) -> Result<Vec<Function>> {
    let mut made = Vec::new();
    for function in table {
        match header.get(&function.name) {
            Some(_) if function.is_hand => made.push(function.clone()),
            Some(parameters) => made.push(with_types(function, function.name.clone(), parameters)?),
            None => {}
        }
        let name = format!("{}_c", function.name);
        if let (true, Some(parameters)) = (function.is_large, header.get(&name)) {
            let twin = with_types(function, name, parameters)?;
            made.push(Function { is_hand: function.is_hand_c, is_large: false, is_hand_c: false, ..twin });
        }
    }
    Ok(made)
}

/// The function or its twin with the header's types and the table's names.
fn with_types(function: &Function, name: String, declared: &[Parameter]) -> Result<Function> {
    ensure!(declared.len() == function.parameters.len(), "{name} has {} parameters in mpi.h", declared.len());
    let mut made = Function { name, ..function.clone() };
    for (parameter, theirs) in made.parameters.iter_mut().zip(declared) {
        parameter.kind.clone_from(&theirs.kind);
        parameter.suffix.clone_from(&theirs.suffix);
    }
    Ok(made)
}

impl<'a> Variant<'a> {
    /// A variant of these tables for what the header has.
    pub fn new(
        target: Target,
        (header, globals): (&'a Functions, &'a [String]),
        mpi: &[Function],
        libc: &'a [Function],
        hand: Hand,
    ) -> Result<Variant<'a>> {
        let (undeclared, unknown): (Vec<&Function>, Vec<&Function>) = mpi
            .iter()
            .filter(|function| function.is_new && !header.contains_key(&function.name))
            .partition(|function| can_be_declared(function, header));
        let undeclared: Vec<Function> = undeclared.into_iter().cloned().collect();
        let mpi = [present(mpi, header)?, undeclared.clone()].concat();
        Ok(Variant { target, header, globals, mpi, undeclared, has_all_new: unknown.is_empty(), libc, hand })
    }

    /// The names of the MPI functions that the variant can call.
    fn names(&self) -> impl Iterator<Item = &str> {
        let undeclared = self.undeclared.iter().map(|function| function.name.as_str());
        self.header.keys().map(String::as_str).chain(undeclared)
    }

    fn is_by_core(&self, function: &Function) -> bool {
        self.hand == Hand::Core && function.is_hand
    }

    /// `real.h`: the original functions, and the prototypes of the wrappers.
    pub fn real(&self) -> String {
        let mut text = String::from(REAL_HEAD);
        if !self.globals.is_empty() {
            text.push_str(GLOBALS_HEAD);
            for name in self.globals {
                let _ = writeln!(text, "\tvoid *{name};");
            }
            text.push_str("};\nextern struct hwio_globals hwio_globals;\n\n");
        }
        for name in self.names() {
            let _ = writeln!(text, "#undef {name}");
        }
        text.push_str("\n/* Functions that mpi.h lacks; an MPI of its family may have them. */\n");
        for function in &self.undeclared {
            let _ = writeln!(text, "{};", function.prototype(""));
        }
        text.push_str("\n/* The MPI library's own functions; NULL where it has none. */\nstruct hwio_real {\n");
        for name in self.names() {
            let _ = writeln!(text, "\t__typeof__({name}) *{name};");
        }
        text.push_str("};\nextern struct hwio_real hwio_real;\n\n");
        text.push_str(CHECKED_REAL);
        for function in self.libc {
            let _ = writeln!(text, "#undef {}", function.name);
        }
        text.push_str(
            "\n/* The next functions in the order of the loader, the C library's or an interposer's. */\nstruct hwio_libc {\n",
        );
        for function in self.libc {
            let space = if function.returns.ends_with('*') { "" } else { " " };
            let parameters = match function.fixed {
                None => function.declared(),
                Some(count) => format!("{}, ...", super::table::declared(&function.parameters[..count])),
            };
            let _ = writeln!(text, "\t{}{space}(*{})({parameters});", function.returns, function.name);
        }
        text.push_str("};\nextern struct hwio_libc hwio_libc;\n\n");
        text.push_str("/* Fills both; false: this MPI library lacks functions that all have. */\n");
        text.push_str("bool hwio_bind_real(void *libmpi, void *(*next)(const char *name));\n\n");
        for function in self.mpi.iter().chain(self.libc) {
            let by = if self.is_by_core(function) { " /* by hand */" } else { "" };
            let _ = writeln!(text, "{};{by}", function.prototype("hwio_"));
        }
        text.push_str("\n#endif\n");
        text
    }

    /// `wrappers.c`.
    pub fn wrappers(&self) -> Result<String> {
        let Target { family, major, macro_of_major } = self.target;
        let mut text = format!(
            "/* Generated from mpiio/calls. */\n#include <dlfcn.h>\n#include <limits.h>\n\n#include \"real.h\"\n#include \"buffer_effects.h\"\n\
             #include \"variant.h\"\n\n_Static_assert({macro_of_major} == {major}, \"mpi.h is of another MPI\");\n\n\
             #undef hwio_real\nstruct hwio_real hwio_real;\nstruct hwio_libc hwio_libc;\n"
        );
        text.push_str(if self.hand == Hand::Traced {
            "#include \"tests/trace/trace.h\"\n"
        } else {
            "#include \"intercept/effects.h\"\n"
        });
        text.push_str(if self.globals.is_empty() { "" } else { "struct hwio_globals hwio_globals;\n" });
        for function in &self.mpi {
            let name = &function.name;
            let _ = writeln!(
                text,
                "\n_Static_assert(__builtin_types_compatible_p(__typeof__(hwio_{name}), __typeof__({name})), \"{name}\");"
            );
            if !self.is_by_core(function) {
                text.push_str(&self.wrapper(function).with_context(|| name.clone())?);
            }
        }
        for function in self.libc.iter().filter(|function| !self.is_by_core(function)) {
            text.push_str(&match self.hand {
                Hand::Traced => libc_wrapper(function, &format!("\thwio_trace(\"{}\");\n", function.name), ""),
                Hand::Core => self.libc_wrapper(function)?,
            });
        }
        text.push_str("\nconst struct hwio_entry hwio_entries[] = {\n");
        for function in self.mpi.iter().chain(self.libc) {
            let _ = writeln!(text, "\t{{ \"{0}\", (void *)hwio_{0} }},", function.name);
        }
        text.push_str("};\n\n");
        self.bind(&mut text);
        let standard = if self.has_all_new { TABLES_STANDARD } else { "MPI_VERSION, MPI_SUBVERSION" };
        let _ = write!(
            text,
            "\n__attribute__((visibility(\"default\"))) const struct hwio_variant headwater_mpiio_variant = {{\n\
             \t.version = HWIO_VARIANT_VERSION,\n\t.family = \"{family}\",\n\t.major = {major},\n\
             \t.standard = HWIO_STANDARD({standard}),\n\
             \t.entries = hwio_entries,\n\t.entry_count = sizeof(hwio_entries) / sizeof(hwio_entries[0]),\n\
             \t.runtime = hwio_runtime,\n\t.start = hwio_variant_start,\n\t.before_vfork = hwio_settle_everything,\n}};\n"
        );
        Ok(text)
    }

    fn bind(&self, text: &mut String) {
        text.push_str(
            "bool hwio_bind_real(void *libmpi, void *(*next)(const char *name))\n{\n\tbool has_all = true;\n\n",
        );
        for name in self.globals {
            // A program may have the library's variables in itself, by copy relocations.
            let _ = writeln!(text, "\thwio_globals.{name} = dlsym(RTLD_DEFAULT, \"{name}\");");
            let _ = writeln!(text, "\tif (hwio_globals.{name} == NULL)");
            let _ = writeln!(text, "\t\thwio_globals.{name} = dlsym(libmpi, \"{name}\");");
            let _ = writeln!(text, "\thas_all = has_all && hwio_globals.{name} != NULL;");
        }
        for name in self.names() {
            let _ = writeln!(text, "\thwio_real.{name} = (__typeof__({name}) *)dlsym(libmpi, \"P{name}\");");
        }
        for function in self.mpi.iter().filter(|function| !function.is_new) {
            let _ = writeln!(text, "\thas_all = has_all && hwio_real.{} != NULL;", function.name);
        }
        for function in self.libc {
            let _ = writeln!(text, "\thwio_libc.{0} = (__typeof__(hwio_libc.{0}))next(\"{0}\");", function.name);
        }
        text.push_str("\treturn has_all;\n}\n");
    }

    /// A twin whose plain function is the core's calls it if its numbers are small enough: both may be used in one
    /// conversation. Not with arrays of counts; those belong to collectives, which all processes call by one name. The
    /// core checks what a receive gets, however large the buffer is: larger numbers are one of a larger type.
    fn narrowed(&self, function: &Function) -> String {
        let plain = function.name.strip_suffix("_c").and_then(|name| self.mpi.iter().find(|plain| plain.name == name));
        let Some(plain) = plain.filter(|plain| self.is_by_core(plain)) else { return String::new() };
        let is_receive = ["source", "message"].iter().any(|name| function.parameter(name).is_some());
        let mut conditions = Vec::new();
        let (mut small, mut large, mut begin, mut end) = (Vec::new(), Vec::new(), String::new(), String::new());
        for (wide, narrow) in function.parameters.iter().zip(&plain.parameters) {
            let name = &wide.name;
            if narrow.kind == "int" && narrow.suffix.is_empty() && wide.kind != "int" {
                conditions.push(if is_receive {
                    format!("{name} >= 0")
                } else {
                    format!("{name} >= 0 && {name} <= INT_MAX")
                });
                small.push(format!("(int){name}"));
                large.push(format!("large_{name}.count"));
                let kind = name.replace("count", "type");
                let kind = if kind == "type" { "datatype".into() } else { kind };
                let _ = writeln!(begin, "\t\tstruct hwio_large large_{name} = hwio_large({name}, &{kind});");
                let _ = writeln!(end, "\t\thwio_large_free(&large_{name}, &{kind});");
            } else if wide.kind.contains("MPI_Count") {
                return String::new();
            } else {
                small.push(name.clone());
                large.push(name.clone());
            }
        }
        let (conditions, small, large) = (conditions.join(" && "), small.join(", "), large.join(", "));
        if !is_receive {
            return format!("\tif ({conditions})\n\t\treturn hwio_{}({small});\n", plain.name);
        }
        format!(
            "\tif (hwio_depth == 0 && {conditions}) {{\n{begin}\t\tint large_result = hwio_{}({large});\n{end}\
             \t\treturn large_result;\n\t}}\n",
            plain.name
        )
    }

    /// The wrapper of a function of the C library that the core doesn't have.
    fn libc_wrapper(&self, function: &Function) -> Result<String> {
        if let Some(name) = &function.same_as {
            let same = self.libc.iter().find(|same| same.name == *name).with_context(|| format!("no `{name}`"))?;
            let prototype = function.prototype("hwio_");
            return Ok(format!("\n{prototype}\n{{\n\treturn hwio_{name}({});\n}}\n", same.arguments()));
        }
        if function.before.is_empty() {
            return Ok(giving(function));
        }
        Ok(libc_wrapper(function, &self.calls(&function.before), &self.calls(&function.after)))
    }

    /// Calls of the core, as statements.
    fn calls(&self, all: &[String]) -> String {
        let calls = all.iter().filter(|_| self.hand == Hand::Core);
        calls.map(|call| format!("\thwio_{call};\n")).collect()
    }

    fn wrapper(&self, function: &Function) -> Result<String> {
        let mut roles = String::new();
        for parameter in &function.parameters {
            if let Some(role) = &parameter.role {
                roles.push_str(&uses(function, parameter, role)?);
            }
        }
        let mut text = format!("{}\n{{\n", function.prototype("hwio_"));
        if self.hand == Hand::Traced {
            let _ = writeln!(text, "\thwio_trace(\"{}\");", function.name);
        }
        text.push_str(&self.narrowed(function));
        if function.is_persistent {
            text.push_str(
                "\tif (hwio_depth == 0) {\n\t\tif (hwio_is_busy)\n\t\t\thwio_communicates();\n\t\thwio_stays_in_use = 1;\n",
            );
            let _ = write!(text, "{roles}\t\thwio_stays_in_use = 0;\n\t}}\n");
        } else if function.is_sync || !roles.is_empty() {
            text.push_str("\tif (hwio_is_busy && hwio_depth == 0) {\n");
            text.push_str(if function.is_sync { "\t\thwio_communicates();\n" } else { "" });
            let _ = writeln!(text, "{roles}\t}}");
        }
        text.push_str(&self.calls(&function.before));
        let call = format!("hwio_real.{}({})", function.name, function.arguments());
        let _ = write!(text, "\thwio_step_in();\n\t{} result = {call};\n\thwio_step_out();\n", function.returns);
        text.push_str(&self.calls(&function.after));
        for parameter in &function.parameters {
            if let Some(role) = parameter.role.as_ref().filter(|role| role.usage == Use::Allocated) {
                text.push_str("\tif (result == MPI_SUCCESS && hwio_depth == 0)\n");
                let _ = writeln!(text, "\t\thwio_allocated(*(void **){}, {});", parameter.name, role.extent[0]);
            }
        }
        text.push_str("\treturn result;\n}\n");
        Ok(text)
    }
}

/// The statements that report what a call does to a buffer.
fn uses(function: &Function, parameter: &Parameter, role: &Role) -> Result<String> {
    let buffer = &parameter.name;
    if role.usage == Use::Allocated {
        return Ok(String::new());
    }
    if role.usage == Use::Freed {
        return Ok(format!("\t\thwio_freed({buffer});\n"));
    }
    let call = statement(function, buffer, role)?;
    let (open, indent, close) = match role.ranks {
        Ranks::All => ("", "\t\t", ""),
        Ranks::Root => ("\t\tif (hwio_is_root(root, comm)) {\n", "\t\t\t", "\t\t}\n"),
        // Otherwise the caller is the root, or has no part, in an inter-communicator.
        Ranks::UnderRoot => ("\t\tif (root >= 0) {\n", "\t\t\t", "\t\t}\n"),
    };
    Ok(format!("{open}{indent}{call}\n{close}"))
}

fn statement(function: &Function, buffer: &str, role: &Role) -> Result<String> {
    let parameter = |name: &str| function.parameter(name).with_context(|| format!("no parameter `{name}`"));
    let suffix = |counts: &str| parameter(counts).map(|p| if p.kind.contains("MPI_Count") { "_c" } else { "" });
    let parts = match &role.share {
        Share::One => "1",
        Share::Times(times) => times,
        Share::Each => "hwio_peers(comm)",
        Share::Local | Share::Sum => "hwio_group_size(comm)",
        Share::Sources => "hwio_sources(comm)",
        Share::Destinations => "hwio_destinations(comm)",
    };
    match role.extent.as_slice() {
        [counts, displacements, kinds] => {
            let is_wide = parameter(displacements)?.kind.contains("MPI_Aint");
            let suffix = match (parameter(kinds)?.suffix.as_str(), suffix(counts)?) {
                ("", large) => format!("v{large}"),
                (_, "") if is_wide => "w_near".into(),
                (_, large) => format!("w{large}"),
            };
            Ok(format!("hwio_uses_{suffix}({buffer}, {counts}, {displacements}, {kinds}, {parts});"))
        }
        [counts, kind] if role.share == Share::Sum => {
            Ok(format!("hwio_uses_sum{}({buffer}, {counts}, {kind}, {parts});", suffix(counts)?))
        }
        [count, kind] if role.share == Share::One => Ok(format!("hwio_uses({buffer}, {count}, {kind});")),
        [count, kind] => Ok(format!("hwio_uses({buffer}, (MPI_Count){count} * {parts}, {kind});")),
        words => bail!("a role with {} words", words.len()),
    }
}

/// A function that calls the C library's between these statements.
fn libc_wrapper(function: &Function, before: &str, after: &str) -> String {
    let call = format!("hwio_libc.{}({});", function.name, function.arguments());
    let call = match (function.returns.as_str(), after) {
        ("void", _) => call,
        (_, "") => format!("return {call}"),
        (returns, _) => format!("{returns} result = {call}\n{after}\treturn result;"),
    };
    format!("\n{}\n{{\n{before}\t{call}\n}}\n", function.prototype("hwio_"))
}

/// A function that passes memory to the kernel, which is filled before.
fn giving(function: &Function) -> String {
    let mut statements = String::new();
    if function.is_sync {
        statements.push_str("\t\thwio_complete_writes();\n");
    }
    for (at, parameter) in function.parameters.iter().enumerate().filter(|(_, one)| one.kind.ends_with('*')) {
        let name = &parameter.name;
        let behind = function.parameters.get(at + 1).filter(|behind| !behind.kind.ends_with('*'));
        let bytes = match (behind.map(|behind| behind.name.as_str()), parameter.kind.trim_end_matches(['*', ' '])) {
            (Some("bytes"), _) => "(size_t)bytes".into(),
            (Some("count"), _) => format!("(size_t)count * sizeof(*{name})"),
            (_, kind) if kind.ends_with("char") => "PATH_MAX".into(),
            (_, kind) if kind.ends_with("void") || kind.ends_with("sockaddr") => "HWIO_UNSIZED_BYTES".into(),
            _ => format!("2 * sizeof(*{name})"),
        };
        let _ = writeln!(statements, "\t\thwio_kernel_uses({name}, {bytes});");
    }
    libc_wrapper(function, &format!("\tif (hwio_is_busy && hwio_depth == 0) {{\n{statements}\t}}\n"), "")
}

/// Open MPI's constants are addresses in its library, with which a variant isn't linked: the loader might take another.
const GLOBALS_HEAD: &str = "\
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)hwio_globals.global)
struct hwio_globals {
";

/// The core's calls of MPI, in a build that checks that no signal's handler makes one.
const CHECKED_REAL: &str = "\
#ifdef HWIO_CHECK_HANDLERS
struct hwio_real *hwio_real_checked(void);
#define hwio_real (*hwio_real_checked())
#endif

";

const REAL_HEAD: &str = "\
/* Generated from mpiio/calls. */
#ifndef HWIO_REAL_H
#define HWIO_REAL_H

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

typedef void *(*hwio_thread_start)(void *);

";

#[cfg(test)]
mod tests {
    use super::super::{header, table};
    use super::*;

    const TABLE: &str = "int MPI_Send(const void *buf [count datatype], int count, MPI_Datatype datatype, int dest, \
        int tag, MPI_Comm comm) sync hand large\n\
        int MPI_Igatherv(const void *sendbuf [sendcount sendtype under root], int sendcount, MPI_Datatype sendtype, \
        void *recvbuf [recvcounts displs recvtype each at root], const int recvcounts[], const int displs[], \
        MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request) sync large\n\
        int MPI_Send_init(const void *buf [count datatype], int count, MPI_Datatype datatype, int dest, int tag, \
        MPI_Comm comm, MPI_Request *request) sync persistent\n\
        int MPI_Session_init(MPI_Info info) sync new\n\
        int MPI_Comm_flush_buffer(MPI_Comm comm) sync new\n";
    const LIBC: &str = "int close(int fd) hand\nssize_t readlink(const char *path, char *buffer, size_t bytes) sync\n\
        int ppoll(struct pollfd *all, nfds_t count, const struct timespec *time)\nint ioctl(int fd, ..., void *argument)\n";
    const HEADER: &str = "int MPI_Send(const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c);\n\
        int MPI_Send_c(const void *b, MPI_Count n, MPI_Datatype t, int d, int g, MPI_Comm c);\n\
        int MPI_Igatherv_c(const void *b, MPI_Count n, MPI_Datatype t, void *r, const MPI_Count m[], \
        const MPI_Aint p[], MPI_Datatype u, int root, MPI_Comm c, MPI_Request *q);\n\
        int MPI_Send_init(const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *q);\n";

    fn variant(hand: Hand) -> String {
        let (header, globals) = (header::functions(HEADER), ["x_world".to_owned()]);
        let (mpi, libc) = (table::parse(TABLE).unwrap(), table::parse(LIBC).unwrap());
        let target = Target { family: "X ", major: 4, macro_of_major: "X_VERSION" };
        Variant::new(target, (&header, &globals), &mpi, &libc, hand).unwrap().wrappers().unwrap()
    }

    #[test]
    fn wrappers_report_what_is_used() {
        let text = variant(Hand::Core);
        let has = |part: &str| assert!(text.contains(part), "{part} is not in {text}");
        has(
            "int hwio_MPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)",
        );
        has(
            "\tif (count >= 0 && count <= INT_MAX)\n\t\treturn hwio_MPI_Send(buf, (int)count, datatype, dest, tag, comm);",
        );
        has("\t\thwio_communicates();\n\t\thwio_uses(buf, count, datatype);\n");
        has("\t\tif (root >= 0) {\n\t\t\thwio_uses(sendbuf, sendcount, sendtype);\n\t\t}\n");
        has("\t\t\thwio_uses_v_c(recvbuf, recvcounts, displs, recvtype, hwio_peers(comm));");
        has("\t\thwio_stays_in_use = 1;\n\t\thwio_uses(buf, count, datatype);\n\t\thwio_stays_in_use = 0;\n");
        has("{ \"MPI_Igatherv_c\", (void *)hwio_MPI_Igatherv_c },");
        has("{ \"close\", (void *)hwio_close },");
        has(
            "\t\thwio_complete_writes();\n\t\thwio_kernel_uses(path, PATH_MAX);\n\t\thwio_kernel_uses(buffer, (size_t)bytes);\n",
        );
        has(
            "\t\thwio_kernel_uses(all, (size_t)count * sizeof(*all));\n\t\thwio_kernel_uses(time, 2 * sizeof(*time));\n",
        );
        has("\t\thwio_kernel_uses(argument, HWIO_UNSIZED_BYTES);\n\t}\n\treturn hwio_libc.ioctl(fd, argument);\n");
        // This mpi.h has neither; it has the types of one.
        has("int hwio_MPI_Comm_flush_buffer(MPI_Comm comm)\n");
        has("\t.standard = HWIO_STANDARD(MPI_VERSION, MPI_SUBVERSION),\n");
        // What the core has, or this MPI hasn't, is not made.
        assert!(
            !text.contains("hwio_trace") && !text.contains("int hwio_MPI_Send(") && !text.contains("int hwio_close(")
        );
        assert!(!text.contains("Session") && !text.contains("hwio_MPI_Igatherv }"));
        assert!(variant(Hand::Traced).contains("int hwio_MPI_Send("));
    }
}
