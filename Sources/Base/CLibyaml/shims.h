// libyaml. An event is a union in C; these functions read the member that its type says is set.
#ifndef LAT_CLIBYAML_SHIMS_H
#define LAT_CLIBYAML_SHIMS_H

#if !__has_include(<yaml.h>)
#error "libyaml's headers were not found. Run scripts/setup, or: apt-get install libyaml-dev pkg-config"
#else

#include <yaml.h>

static inline const unsigned char *lat_yaml_anchor(const yaml_event_t *event) {
    switch (event->type) {
    case YAML_ALIAS_EVENT: return event->data.alias.anchor;
    case YAML_SCALAR_EVENT: return event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT: return event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT: return event->data.mapping_start.anchor;
    default: return 0;
    }
}

static inline const unsigned char *lat_yaml_text(const yaml_event_t *event) { return event->data.scalar.value; }
static inline size_t lat_yaml_length(const yaml_event_t *event) { return event->data.scalar.length; }
static inline const unsigned char *lat_yaml_tag(const yaml_event_t *event) { return event->data.scalar.tag; }

// Whether a scalar has no quotes and no tag, so that its text says what it is.
static inline int lat_yaml_is_plain(const yaml_event_t *event) { return event->data.scalar.plain_implicit; }

#endif
#endif
