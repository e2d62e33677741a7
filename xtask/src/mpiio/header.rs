//! The declarations of an MPI's `mpi.h`, from the preprocessor's output.

use std::collections::BTreeMap;

use super::table::{Parameter, parameter};

/// Functions that the standard has removed or deprecated, or that are none: the library has no wrapper for them.
const LEFT_OUT: &[&str] = &[
    "MPI_Address",
    "MPI_Attr_delete",
    "MPI_Attr_get",
    "MPI_Attr_put",
    "MPI_Errhandler_create",
    "MPI_Errhandler_get",
    "MPI_Errhandler_set",
    "MPI_Get_elements_x",
    "MPI_Info_get",
    "MPI_Info_get_valuelen",
    "MPI_Keyval_create",
    "MPI_Keyval_free",
    "MPI_Pcontrol",
    "MPI_Type_extent",
    "MPI_Type_get_extent_x",
    "MPI_Type_get_true_extent_x",
    "MPI_Type_hindexed",
    "MPI_Type_hvector",
    "MPI_Type_lb",
    "MPI_Type_struct",
    "MPI_Type_ub",
];

/// The functions by name, each with its parameters, which may lack names.
pub type Functions = BTreeMap<String, Vec<Parameter>>;

/// The functions `MPI_X` that preprocessed text declares.
pub fn functions(text: &str) -> Functions {
    let mut found = Functions::new();
    for (at, _) in text.match_indices("MPI_") {
        let before = text[..at].trim_end_matches(' ');
        let is_start = before.len() < at && before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = (&rest[..end], rest[end..].trim_start());
        if !is_start || name.starts_with("MPI_T_") || name.ends_with("_FN") || LEFT_OUT.contains(&name) {
            continue;
        }
        let Some((inside, _)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) else { continue };
        if inside.contains('(') || inside.contains("...") {
            continue;
        }
        found.entry(name.to_owned()).or_insert_with(|| parameters(inside));
    }
    found
}

/// The library's variables whose addresses are constants, from the preprocessor's macros: Open MPI has such.
pub fn globals(macros: &str) -> Vec<String> {
    let mut found: Vec<String> = macros.lines().filter_map(global).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

fn global(line: &str) -> Option<&str> {
    let (_, value) = line.strip_prefix("#define MPI_")?.split_once("OMPI_PREDEFINED_GLOBAL")?;
    let (_, name) = value.trim().strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    Some(name.trim())
}

fn parameters(inside: &str) -> Vec<Parameter> {
    let inside = inside.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = inside.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "void");
    parts.filter_map(|part| parameter(part).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_in_the_library() {
        let macros = "#define MPI_BYTE OMPI_PREDEFINED_GLOBAL(MPI_Datatype, ompi_mpi_byte)\n#define MPI_X 1\n\
            #define OMPI_PREDEFINED_GLOBAL(type,global) ((type) ((void *) &(global)))\n\
            #define MPI_COMM_WORLD OMPI_PREDEFINED_GLOBAL( MPI_Comm, ompi_mpi_comm_world)\n";
        assert_eq!(globals(macros), ["ompi_mpi_byte", "ompi_mpi_comm_world"]);
    }

    #[test]
    fn declarations_are_found() {
        let text = "typedef int (MPI_Copy_function)(int, void *);\n\
            __attribute__((visibility(\"default\"))) int MPI_Send(const void *buf, int count,\n   MPI_Datatype type);\n\
            extern int PMPI_Recv(void *buf);\n double MPI_Wtime(void) __attribute__((x(1,3)));\n\
            int MPI_Pcontrol(const int level, ...);\nint MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *f);\n\
            int MPI_Gatherv_c(const MPI_Count recvcounts[], const MPI_Aint displs[]);\n\
            int MPI_T_init_thread(int a);\nint MPI_Alloc(MPI_Datatype (a));\n";
        let found = functions(text);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["MPI_Comm_create_keyval", "MPI_Gatherv_c", "MPI_Send", "MPI_Wtime"]);
        let declared: Vec<String> = found["MPI_Gatherv_c"].iter().map(Parameter::declared).collect();
        assert_eq!(declared, ["const MPI_Count recvcounts[]", "const MPI_Aint displs[]"]);
        assert_eq!(found["MPI_Send"].len(), 3);
        assert!(found["MPI_Wtime"].is_empty());
    }
}
