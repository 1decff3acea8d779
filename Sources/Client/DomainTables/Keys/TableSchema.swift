/// What is made from the list of keys for people and their editors: the JSON schema of table files, and the table of keys in
/// the documentation.
package enum TableSchema {
    /// The objects of keys, with what they are for.
    private static let groups: [(place: TableKey.Place, meaning: String)] = [
        (
            .retry,
            "When a request is repeated, and after what wait. Each member comes from the nearest row that has it."
        ),
        (.events, "How event streams are read, and whether a lost one is opened again."),
        (.query, "Which parameters go into the query although there is a body, and how arrays are written there."),
        (.documented, "What the document of an API says of the call; `lat openapi import` writes it."),
        (.tls, "How servers are verified and the client identifies itself. Paths are relative to this file."),
        (.digests, "What is done with the digest fields of RFC 9530."),
    ]

    /// The keys whose values of several rows are joined.
    private static let joined: [(name: String, meaning: String, form: ValueForm)] = [
        (
            "headers", "Header fields; `null` removes a field that a broader row sets.",
            ValueForm(
                "names with texts",
                schema: """
                    { "type": "object", "propertyNames": { "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$" }, \
                    "additionalProperties": { "type": ["string", "null"] } }
                    """)
        ),
        (
            "parameters", "Parameters that every call sends unless it sets them itself.",
            ValueForm("names with any JSON", schema: #"{ "type": "object" }"#)
        ),
        (
            "secretHeaders",
            "Names of header fields that no log shows and no redirect sends to another origin, in addition to the manager's.",
            ValueForm(
                "an array of names", schema: #"{ "type": "array", "items": { "type": "string", "minLength": 1 } }"#)
        ),
    ]

    // MARK: Documentation

    /// A row of the table of keys for each key that all rows may have.
    package static var documentation: String {
        let keys = RowKey.members(of: nil).map { (name: $0.name, meaning: $0.meaning, words: $0.form.words) }
        let objects = groups.map { group in
            let members = RowKey.members(of: group.place).map(\.member).joined(separator: ", ")
            return (name: group.place.rawValue, meaning: group.meaning, words: "`{ \(members) }`")
        }
        let others = joined.map { (name: $0.name, meaning: $0.meaning, words: $0.form.words) }
        let all = Dictionary((keys + objects + others).map { ($0.name, $0) }) { first, _ in first }
        return TableKey.settings.compactMap { all[$0] }
            .map { "| `\($0.name)` | \($0.words) | \($0.meaning) |\n" }.joined()
    }

    // MARK: JSON schema

    /// The JSON schema of a table file.
    package static var text: String {
        let settings = TableKey.settings.map { "\"\($0)\": { \"$ref\": \"#/$defs/\($0)\" }" }
        let keys = RowKey.members(of: nil).map { definition($0.name, $0.meaning, $0.form.schema) }
        let objects = groups.map { group in
            let members = RowKey.members(of: group.place).map { definition($0.member, $0.meaning, $0.form.schema) }
            return definition(
                group.place.rawValue, group.meaning,
                #"{ "type": "object", "additionalProperties": false, "properties": {\#n"#
                    + members.map { "        " + $0 }.joined(separator: ",\n") + "\n    } }")
        }
        let others = joined.map { definition($0.name, $0.meaning, $0.form.schema) }
        let definitions =
            [row("domain", ["baseURL"], ofDomain + settings), row("server", ["domain", "path"], ofServer + settings)]
            + keys + objects + others + shared
        return """
            {
              "$schema": "https://json-schema.org/draft/2020-12/schema",
              "title": "Domain table of LATNetworking",
              "description": "The servers a program talks to, and the calls it makes. `lat domains check` checks what a schema cannot.",
              "type": "object",
              "required": ["domains"],
              "additionalProperties": false,
              "properties": {
                "$schema": { "type": "string" },
                \(production),
                "defaults": {
                  "description": "The settings of all domains. Those of a domain take precedence, and those of a server over both.",
                  "type": "object",
                  "additionalProperties": false,
                  "properties": {
                    \(settings.joined(separator: ",\n        "))
                  }
                },
                "domains": \(rows("domain")),
                "servers": \(rows("server"))
              },
              "$defs": {
                \(definitions.joined(separator: ",\n    "))
              }
            }

            """
    }

    private static func definition(_ name: String, _ meaning: String, _ schema: String) -> String {
        let words = meaning.map { $0 == "\"" || $0 == "\\" ? "\\\($0)" : "\($0)" }.joined()
        return #""\#(name)": { "description": "\#(words)", \#(schema.dropFirst(2))"#
    }

    private static func rows(_ kind: String) -> String {
        """
        { "description": "One row for each \(kind), by its name.", "type": "object", "propertyNames": { "minLength": 1 }, \
        "additionalProperties": { "$ref": "#/$defs/\(kind)" } }
        """
    }

    private static func row(_ kind: String, _ required: [String], _ properties: [String]) -> String {
        let names = required.map { "\"\($0)\"" }.joined(separator: ", ")
        return """
            "\(kind)": { "type": "object", "required": [\(names)], "additionalProperties": false, "properties": {
                  \(properties.joined(separator: ",\n      "))
                } }
            """
    }

    private static let ofDomain = [
        definition("baseURL", "What paths are joined to. Its own path and query are kept.", address),
        definition(
            "environments", "Other base URLs by the name of an environment; an array is a URL and its mirrors.",
            """
            { "type": "object", "propertyNames": { "minLength": 1 }, "additionalProperties": { "oneOf": [\(address), \
            { "type": "array", "minItems": 1, "uniqueItems": true, "items": \(address) }] } }
            """),
        definition(
            "mirrors", "Alternatives to baseURL, tried in order when no connection can be made.",
            #"{ "type": "array", "uniqueItems": true, "items": \#(address) }"#),
        definition("pins", RowKey.pinsOfDomain.meaning, RowKey.pinsOfDomain.form.schema),
    ]

    private static let ofServer = [
        definition("domain", "The name of a row of domains.", #"{ "type": "string", "minLength": 1 }"#),
        definition(
            "path", "Joined to the domain's base URL by one slash; {id} is a parameter.", #"{ "type": "string" }"#),
        definition(
            "method", "The method of routes that name none.",
            """
            { "type": "string", "examples": [\(HTTPText.methods.map { "\"\($0)\"" }.joined(separator: ", "))], \
            "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$" }
            """),
        definition(
            "allowsAbsolute", "Whether path may be an absolute URL, which then gets the domain's headers.",
            #"{ "type": "boolean" }"#),
    ]

    private static let production = definition(
        "production",
        "Whether the table is for production, where no row may have chaos; an array names the environments that are.",
        #"{ "oneOf": [{ "type": "boolean" }, { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } }] }"#
    )

    private static let address = ##"{ "$ref": "#/$defs/address" }"##

    /// What several definitions refer to.
    private static let shared = [
        ##""address": { "type": "string", "pattern": "^([Hh][Tt][Tt][Pp][Ss]?://[^\\s#{}]+|unix:///[^\\s#{}:?]*[^\\s#{}:?/](:(/[^\\s#{}]*)?)?(\\?[^\\s#{}]*)?)$" }"##,
        """
        "duration": { "type": "string", "pattern": "^(?=.)([0-9]+(\\\\.[0-9]+)?d)?([0-9]+(\\\\.[0-9]+)?h)?\
        ([0-9]+(\\\\.[0-9]+)?m)?([0-9]+(\\\\.[0-9]+)?s)?([0-9]+(\\\\.[0-9]+)?ms)?$" }
        """,
        #""statuses": { "type": "array", "items": { "type": "integer", "minimum": 100, "maximum": 599 } }"#,
        #""steps": { "type": "string", "pattern": "^[^.]+(\\.[^.]+)*$" }"#,
        """
        "requestLimits": { "oneOf": [{ "const": "adaptive" }, { "type": "object", "additionalProperties": false, "properties": {
              "maxConcurrentRequests": { "type": "integer", "minimum": 1, "maximum": 1000000 },
              "rate": { "oneOf": [{ "type": "number", "exclusiveMinimum": 0 }, \
        { "type": "object", "additionalProperties": false, "required": ["perSecond"], "properties": {
                "perSecond": { "type": "number", "exclusiveMinimum": 0 },
                "burst": { "type": "integer", "minimum": 1, "maximum": 1000000 }
              } }] },
              "followsServer": { "type": "boolean" },
              "concurrency": { "const": "adaptive" },
              "floor": { "type": "integer", "minimum": 1, "maximum": 1000000 },
              "ceiling": { "type": "integer", "minimum": 1, "maximum": 1000000 }
            } }] }
        """,
        ##"""
        "circuitBreaker": { "type": "object", "additionalProperties": false, "properties": {
              "failures": { "type": "integer", "minimum": 1, "maximum": 1000000 },
              "pause": { "$ref": "#/$defs/duration" },
              "statuses": { "$ref": "#/$defs/statuses" }
            } }
        """##,
        ##"""
        "hedgeRule": { "type": "object", "additionalProperties": false, "properties": {
              "after": { "oneOf": [{ "$ref": "#/$defs/duration" }, { "type": "string", "pattern": "^p[5-9][0-9](\\.[0-9]+)?$" }] },
              "initially": { "$ref": "#/$defs/duration" },
              "share": { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
              "attempts": { "type": "integer", "minimum": 1, "maximum": 5 }
            } }
        """##,
        ##"""
        "envelopeRule": { "type": "object", "additionalProperties": false, "required": ["code", "success"], "properties": {
              "code": { "$ref": "#/$defs/steps" },
              "message": { "$ref": "#/$defs/steps" },
              "data": { "$ref": "#/$defs/steps" },
              "success": { "type": "array", "minItems": 1, "items": { "type": ["number", "string"] } },
              "messages": { "type": "object", "additionalProperties": { "type": "string" } }
            } }
        """##,
        ##"""
        "paging": { "oneOf": [{ "const": "link" }, { "type": "object", "additionalProperties": false, "properties": {
              "link": { "type": "string", "minLength": 1 },
              "address": { "$ref": "#/$defs/steps" },
              "cursor": { "$ref": "#/$defs/steps" },
              "parameter": { "type": "string", "minLength": 1 },
              "number": { "type": "string", "minLength": 1 },
              "offset": { "type": "string", "minLength": 1 },
              "first": { "type": "integer", "minimum": 0, "maximum": 1000000000 },
              "items": { "oneOf": [{ "const": "." }, { "$ref": "#/$defs/steps" }] },
              "maxPages": { "type": "integer", "minimum": 1, "maximum": 1000000 }
            } }] }
        """##,
        ##"""
        "polling": { "oneOf": [{ "const": "location" }, { "type": "object", "additionalProperties": false, "properties": {
              "status": { "$ref": "#/$defs/steps" },
              "done": { "$ref": "#/$defs/states" },
              "failed": { "$ref": "#/$defs/states" },
              "message": { "$ref": "#/$defs/steps" },
              "address": { "$ref": "#/$defs/steps" },
              "header": { "type": "string", "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$" },
              "result": { "$ref": "#/$defs/steps" },
              "interval": { "$ref": "#/$defs/duration" },
              "longestInterval": { "$ref": "#/$defs/duration" },
              "deadline": { "$ref": "#/$defs/duration" },
              "attempts": { "type": "integer", "minimum": 1, "maximum": 1000000 }
            } }] }
        """##,
        ##"""
        "uploads": { "oneOf": [{ "enum": ["tus", "standard", "s3"] },
            { "type": "object", "additionalProperties": false, "required": ["protocol"], "properties": {
              "protocol": { "enum": ["tus", "standard", "s3"] },
              "partSize": { "type": "integer", "minimum": 1, "maximum": 5368709120 },
              "parallel": { "type": "integer", "minimum": 1, "maximum": 64 },
              "checksums": { "type": "boolean" }
            } }] }
        """##,
        #""states": { "type": "array", "items": { "type": ["string", "number", "boolean"] } }"#,
        ##"""
        "oauth2Rule": { "type": "object", "additionalProperties": false, "required": ["clientID"], "properties": {
              "issuer": { "$ref": "#/$defs/address" },
              "tokenURL": { "$ref": "#/$defs/address" },
              "authorizationURL": { "$ref": "#/$defs/address" },
              "deviceURL": { "$ref": "#/$defs/address" },
              "clientID": { "type": "string", "minLength": 1 },
              "secretVariable": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
              "secretFile": { "type": "string", "minLength": 1 },
              "clientAuthentication": { "enum": ["basic", "post", "none"] },
              "grant": { "enum": ["clientCredentials", "deviceCode", "authorizationCode"] },
              "scopes": { "type": "array", "items": { "type": "string", "minLength": 1 } },
              "parameters": { "type": "object", "additionalProperties": { "type": "string" } },
              "leeway": { "$ref": "#/$defs/duration" },
              "store": { "enum": ["file", "secretService"] }
            } }
        """##,
        ##"""
        "errorRule": { "type": "object", "additionalProperties": false, "required": ["code"], "properties": {
              "code": { "$ref": "#/$defs/steps" },
              "message": { "$ref": "#/$defs/steps" },
              "details": { "$ref": "#/$defs/steps" },
              "messages": { "type": "object", "additionalProperties": { "type": "string" } },
              "names": { "type": "object", "additionalProperties": { "type": "string" } }
            } }
        """##,
        certificate,
    ]

    private static var certificate: String {
        func form(_ paths: [String]) -> String {
            let names = paths.map { "\"\($0)\"" }.joined(separator: ", ")
            let members =
                paths.map { #""\#($0)": { "type": "string", "minLength": 1 }"# } + [
                    #""password": { "type": "string" }"#,
                    #""passwordVariable": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }"#,
                ]
            return """
                { "type": "object", "additionalProperties": false, "required": [\(names)], \
                "properties": { \(members.joined(separator: ", ")) } }
                """
        }
        return #""clientCertificate": { "oneOf": [\#(form(["file"])), \#(form(["certificate", "key"]))] }"#
    }
}
