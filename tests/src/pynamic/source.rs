//! The C text of a library, and its functions' results.
//!
//! A function of a utility library executes its code and then calls a function of another one with a higher number in
//! the same group. If there is none, it calls its own library's, until the depth is used up. A function of a module
//! does so with a utility's, of a few neighbours. Each returns a constant of its own, added to the called one's result.

use std::fmt::Write;

use super::plan::Plan;

/// How many calls follow each other beyond a module's function.
const DEPTH_MAX: u32 = 3;
/// A utility library calls those whose numbers are one, two and three times this higher: as many can be linked at once.
pub(super) const LANES: usize = 8;
const STRIDES: usize = 3;
/// Utility libraries that call each other: a module is linked with far fewer than all.
const GROUP: usize = 24;
/// Utility libraries whose functions a module calls.
const NEIGHBOURS: usize = 8;

/// A function of a utility library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Utility {
    library: usize,
    function: usize,
}

impl Utility {
    fn name(self) -> String {
        format!("utility{}_{}", self.library, self.function)
    }

    fn value(self) -> u64 {
        constant(self.library, self.function)
    }

    /// The functions that it calls.
    fn next(self, plan: &Plan) -> Utility {
        let library = self.library + LANES * (1 + self.function % STRIDES);
        let is_known = library < plan.utilities && library / GROUP == self.library / GROUP;
        let function = (self.function + 1) % plan.functions;
        Utility { library: if is_known { library } else { self.library }, function }
    }
}

/// A number that distinguishes functions, as `splitmix64` mixes them (Steele et al., OOPSLA'14).
fn constant(library: usize, function: usize) -> u64 {
    let mixed = ((library as u64) << 32 | function as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

/// The functions that a module's function calls: with each neighbour other functions of that. So if modules begin at
/// each library, all functions are called whose number is a multiple of the neighbours'.
fn called(plan: &Plan, module: usize, function: usize) -> Utility {
    let neighbour = function % NEIGHBOURS;
    let library = (module * plan.utilities / plan.modules + neighbour) % plan.utilities;
    let own = neighbour * (plan.functions / NEIGHBOURS) + function / NEIGHBOURS;
    Utility { library, function: own % plan.functions }
}

/// The sum of what all functions of all modules return.
pub(super) fn checksum(plan: &Plan) -> u64 {
    let mut sum = 0u64;
    for module in 0..plan.modules {
        for function in 0..plan.functions {
            sum = sum.wrapping_add(constant(plan.utilities + module, function));
            let mut utility = called(plan, module, function);
            for _ in 0..DEPTH_MAX {
                sum = sum.wrapping_add(utility.value());
                utility = utility.next(plan);
            }
        }
    }
    sum
}

/// A utility library's text, and the numbers of the utility libraries that it is linked with.
pub(super) fn utility(plan: &Plan, library: usize) -> (String, Vec<usize>) {
    let mut text = head(plan);
    let all = (0..plan.functions).map(|function| Utility { library, function });
    let calls: Vec<(Utility, Utility)> = all.map(|own| (own, own.next(plan))).collect();
    let needed = declare(&mut text, calls.iter().flat_map(|&(own, next)| [own, next]));
    for (own, next) in calls {
        let (name, value, next) = (own.name(), own.value(), next.name());
        let _ =
            writeln!(text, "u64 {name}(int depth) {{ CODE; return {value}u + (depth > 1 ? {next}(depth - 1) : 0); }}");
    }
    let names = (0..plan.functions).map(|function| Utility { library, function }.name());
    table(&mut text, &format!("utility{library}_table"), names);
    (text, needed.into_iter().filter(|&other| other != library).collect())
}

/// A module's text, and the numbers of the utility libraries that it is linked with.
pub(super) fn module(plan: &Plan, module: usize) -> (String, Vec<usize>) {
    let mut text = format!("#include <Python.h>\n{}", head(plan));
    let calls: Vec<Utility> = (0..plan.functions).map(|function| called(plan, module, function)).collect();
    let needed = declare(&mut text, calls.iter().copied());
    for (function, utility) in calls.iter().enumerate() {
        let (name, value) = (utility.name(), constant(plan.utilities + module, function));
        let _ = writeln!(text, "static u64 f{function}(void) {{ CODE; return {value}u + {name}({DEPTH_MAX}); }}");
    }
    table(&mut text, &format!("module{module}_table"), (0..plan.functions).map(|function| format!("f{function}")));
    let _ = writeln!(
        text,
        "static PyObject *visit(PyObject *self, PyObject *none) {{\n  (void)self, (void)none;\n  u64 sum = 0;\n  \
         for (int n = 0; n < {0}; n++) sum += ((u64(*)(void))module{module}_table[n])();\n  \
         return PyLong_FromUnsignedLongLong(sum);\n}}\n\
         static PyMethodDef methods[] = {{{{\"visit\", visit, METH_NOARGS, 0}}, {{0, 0, 0, 0}}}};\n\
         static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, .m_name = \"module{module}\", .m_methods = \
         methods}};\n\
         PyMODINIT_FUNC PyInit_module{module}(void) {{ return PyModule_Create(&module); }}",
        plan.functions
    );
    (text, needed)
}

/// `CODE` is the body of each function: instructions that do nothing. What no program loads is in a section of its own,
/// like data for debuggers.
fn head(plan: &Plan) -> String {
    let code = plan.code_bytes / plan.functions / 4 * 4;
    format!(
        "typedef unsigned long long u64;\n\
         #if defined(__x86_64__)\n\
         #define CODE __asm__ volatile(\".nops {code}\")\n\
         #elif defined(__aarch64__)\n\
         #define CODE __asm__ volatile(\".fill {}, 4, 0xd503201f\")\n\
         #endif\n\
         __asm__(\".pushsection .debug_pynamic,\\\"\\\",%progbits\\n.zero {}\\n.popsection\");\n",
        code / 4,
        plan.unloaded_bytes
    )
}

/// Declares functions; the libraries that they are in.
fn declare(text: &mut String, functions: impl Iterator<Item = Utility>) -> Vec<usize> {
    let functions: std::collections::BTreeSet<Utility> = functions.collect();
    for function in &functions {
        let _ = writeln!(text, "u64 {}(int depth);", function.name());
    }
    let libraries: std::collections::BTreeSet<usize> = functions.iter().map(|function| function.library).collect();
    libraries.into_iter().collect()
}

/// A table of functions, which the loader relocates.
fn table(text: &mut String, name: &str, functions: impl Iterator<Item = String>) {
    let functions: Vec<String> = functions.map(|function| format!("(void *){function}")).collect();
    let _ = writeln!(text, "void *{name}[] = {{{}}};", functions.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_paper_is_called() {
        let plan = Plan::paper(1);
        let starts = (0..plan.modules).flat_map(|module| (0..plan.functions).map(move |function| (module, function)));
        let mut visited = std::collections::BTreeSet::new();
        for (module, function) in starts {
            let mut utility = called(&plan, module, function);
            for _ in 0..DEPTH_MAX {
                visited.insert(utility);
                utility = utility.next(&plan);
            }
        }
        let all = (0..plan.utilities)
            .flat_map(|library| (0..plan.functions).map(move |function| Utility { library, function }));
        let missed: Vec<_> = all.filter(|one| !visited.contains(one)).map(Utility::name).collect();
        assert_eq!(missed, [""; 0]);
    }

    #[test]
    fn a_library_needs_later_lanes_alone() {
        let plan = Plan::paper(1);
        for library in 0..plan.utilities {
            let (_, needed) = utility(&plan, library);
            assert!(needed.iter().all(|&other| other >= library + LANES), "{library}: {needed:?}");
        }
    }
}
