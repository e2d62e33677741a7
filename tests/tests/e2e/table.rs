//! One table of programs, one of mechanisms: each program under each mechanism is a test.

/// Makes the tests. The functions of a program's module are run with the mechanism.
macro_rules! programs {
    (only $name:ident $mechanism:ident: $($module:ident: [$($program:ident),+ $(,)?]),+ $(,)?) => {
        programs!(@under $name $mechanism $($module: [$($program),+]),+);
    };
    ($($module:ident: [$($program:ident),+ $(,)?]),+ $(,)?) => {
        programs!(@under audit Audit $($module: [$($program),+]),+);
        programs!(@under namespace Namespace $($module: [$($program),+]),+);
        programs!(@under mount Mount $($module: [$($program),+]),+);
    };
    (@under $name:ident $mechanism:ident $($module:ident: [$($program:ident),+]),+) => {
        mod $name {
            $(mod $module {
                use headwater_tests::harness::{Mechanism, skipped};

                $(#[test]
                fn $program() {
                    match Mechanism::$mechanism.check() {
                        Ok(()) => crate::$module::$program(Mechanism::$mechanism),
                        Err(reason) => skipped(reason),
                    }
                })+
            })+
        }
    };
}

programs! {
    debugger: [a_live_process, a_debugger_in_the_session, a_breakpoint_in_what_the_program_opens],
    exec: [
        every_file_by_every_exec_call,
        every_file_by_every_exec_call_for_an_ordinary_user,
        the_program_itself_may_be_anything,
        what_may_not_be_opened_stays_so,
        a_chain_of_interpreters,
    ],
    files: [
        everything_about_files_is_the_same,
        everything_is_the_same_for_an_ordinary_user,
        system_programs_see_the_same_tree,
        calls_that_symbol_binding_does_not_see,
        a_library_read_as_a_file_is_whole,
        file_systems_with_the_same_numbers,
    ],
    interpreters: [
        python_imports,
        python_scripts_with_an_interpreter_line,
        perl_imports,
        lua_imports,
        shells,
        node_modules,
        java_classes,
    ],
    leftovers: [a_child_that_stays_behind_does_not_prolong_the_session],
    memory: [
        maps_and_direct_reads,
        siblings_share_memory_and_read_each_others,
        a_ram_disk_that_fills_up,
    ],
    names: [
        objects_have_their_original_names,
        the_executable_has_its_original_name,
        the_auxiliary_vector_has_the_original_name,
        a_static_program_is_left_alone,
    ],
    open_close: [
        open_close_and_open_again,
        a_second_namespace,
        from_threads,
        in_a_forked_child,
        programs_that_start_programs,
        exceptions_cross_libraries,
    ],
    search: [
        rpath_runpath_and_library_path,
        origin_in_dependencies_of_dependencies,
        hwcaps_directories,
        preloaded_libraries,
        system_libraries_and_absent_ones,
        relative_paths,
    ],
    statics: [a_static_program_in_c, a_static_program_in_go],
    tools: [archives_and_copies, a_repository_of_git, a_database_of_sqlite],
}

/// Programs that write in the scope, which a mount below a prefix refuses, or with built-in original paths, which lead
/// out of it.
macro_rules! at_original_paths {
    ($name:ident $mechanism:ident) => {
        programs! {
            only $name $mechanism:
            debugger: [a_core_file],
            search: [symbolic_links, one_file_under_two_names_is_loaded_once],
            writes: [
                one_node_writes_and_another_reads,
                a_process_sees_what_it_and_its_children_write,
                modules_that_a_program_compiles_are_used,
                what_is_open_shows_what_others_write,
                a_log_is_followed,
                a_log_from_outside_is_followed,
                what_is_made_in_a_new_directory_is_not_announced,
                locks_are_those_of_the_source_file,
                locks_exclude_the_processes_of_other_nodes,
                locks_exclude_processes_outside,
                what_was_changed_under_a_lock_is_seen_behind_it,
                a_lock_is_waited_for_beyond_the_daemon,
                a_lock_outlives_the_daemon,
                lock_files_exclude_the_processes_of_other_nodes,
                changes_by_number_are_seen,
                what_is_open_stays_the_same_file,
                random_changes_are_seen_by_all,
                records_of_several_nodes_stay_whole,
                a_growing_file_is_read_to_its_end_under_a_lock,
                a_file_that_only_grows,
                access_control_lists_are_those_of_the_source_file,
                a_process_reads_what_it_writes,
                a_program_that_is_made_can_be_executed,
                what_is_looked_for_again_is_seen,
                what_is_rewritten_outside_is_seen,
            ],
        }
    };
}

mod at_original_paths {
    at_original_paths!(audit Audit);
    at_original_paths!(namespace Namespace);
}
