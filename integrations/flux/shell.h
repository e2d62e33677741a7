/* What the plugin uses of Flux's interface (flux_shell_*(3), flux_plugin_*(3), flux_cmd_*(3), flux_kvs_*(3)), so that
 * it is built without Flux's headers. A test compiles it beside them. The functions are weak: an older Flux that lacks one
 * has none of the plugin instead of a job that fails. */
#ifndef HEADWATER_FLUX_SHELL_H
#define HEADWATER_FLUX_SHELL_H

#include <stddef.h>

typedef struct flux_handle flux_t;
typedef struct flux_future flux_future_t;
typedef struct flux_kvs_txn flux_kvs_txn_t;
typedef struct flux_command flux_cmd_t;
typedef struct flux_plugin flux_plugin_t;
typedef struct flux_plugin_arg flux_plugin_arg_t;
typedef struct flux_shell flux_shell_t;
typedef struct shell_task flux_shell_task_t;

typedef int (*flux_plugin_f)(flux_plugin_t *plugin, const char *topic, flux_plugin_arg_t *args, void *data);

#pragma weak flux_plugin_set_name
#pragma weak flux_plugin_add_handler
#pragma weak flux_plugin_conf_unpack
#pragma weak flux_plugin_get_shell
#pragma weak flux_shell_get_flux
#pragma weak flux_shell_getopt
#pragma weak flux_shell_getenv
#pragma weak flux_shell_get_environ
#pragma weak flux_shell_setenvf
#pragma weak flux_shell_info_unpack
#pragma weak flux_shell_rank_info_unpack
#pragma weak flux_shell_current_task
#pragma weak flux_shell_task_cmd
#pragma weak flux_shell_task_info_unpack
#pragma weak flux_shell_log
#pragma weak flux_cmd_argv_insert
#pragma weak flux_cmd_setenvf
#pragma weak flux_future_wait_for
#pragma weak flux_kvs_txn_create
#pragma weak flux_kvs_txn_destroy
#pragma weak flux_kvs_txn_put
#pragma weak flux_kvs_txn_unlink
#pragma weak flux_kvs_commit
#pragma weak flux_kvs_lookup
#pragma weak flux_kvs_lookup_get
#pragma weak flux_future_get
#pragma weak flux_future_destroy

int flux_plugin_set_name(flux_plugin_t *plugin, const char *name);
int flux_plugin_add_handler(flux_plugin_t *plugin, const char *topic, flux_plugin_f handler, void *data);
int flux_plugin_conf_unpack(flux_plugin_t *plugin, const char *format, ...);
flux_shell_t *flux_plugin_get_shell(flux_plugin_t *plugin);

flux_t *flux_shell_get_flux(flux_shell_t *shell);
int flux_shell_getopt(flux_shell_t *shell, const char *name, char **json);
const char *flux_shell_getenv(flux_shell_t *shell, const char *name);
int flux_shell_get_environ(flux_shell_t *shell, char **json);
int flux_shell_setenvf(flux_shell_t *shell, int overwrite, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
int flux_shell_info_unpack(flux_shell_t *shell, const char *format, ...);
int flux_shell_rank_info_unpack(flux_shell_t *shell, int shell_rank, const char *format, ...);
flux_shell_task_t *flux_shell_current_task(flux_shell_t *shell);
flux_cmd_t *flux_shell_task_cmd(flux_shell_task_t *task);
int flux_shell_task_info_unpack(flux_shell_task_t *task, const char *format, ...);
void flux_shell_log(const char *component, int level, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

int flux_cmd_argv_insert(flux_cmd_t *command, int at, const char *argument);
int flux_cmd_setenvf(flux_cmd_t *command, int overwrite, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

int flux_future_wait_for(flux_future_t *future, double timeout_s);
int flux_future_get(flux_future_t *future, const void **result);
void flux_future_destroy(flux_future_t *future);

flux_kvs_txn_t *flux_kvs_txn_create(void);
void flux_kvs_txn_destroy(flux_kvs_txn_t *changes);
int flux_kvs_txn_put(flux_kvs_txn_t *changes, int flags, const char *key, const char *value);
int flux_kvs_txn_unlink(flux_kvs_txn_t *changes, int flags, const char *key);
flux_future_t *flux_kvs_commit(flux_t *flux, const char *name_space, int flags, flux_kvs_txn_t *changes);
flux_future_t *flux_kvs_lookup(flux_t *flux, const char *name_space, int flags, const char *key);
int flux_kvs_lookup_get(flux_future_t *future, const char **value);

#endif
