/// Tables with a mistake, and the expected diagnostics as `line:column: severity: message`.
extension Mistake {
    static let ofTheFileAndItsAddresses: [Mistake] = [
        Mistake(
            "an empty file",
            """

            """,
            [
                "1:1: error: the file is empty; expected { … }"
            ]),
        Mistake(
            "only a comment",
            """
            // nothing

            """,
            [
                "2:1: error: the file is empty; expected { … }"
            ]),
        Mistake(
            "an array instead of a table",
            """
            []
            """,
            [
                "1:1: error: the table must be an object { … }, found an array"
            ]),
        Mistake(
            "no domains",
            """
            { defaults: { timeout: "60s" } }
            """,
            [
                #"1:1: error: the table has no "domains"; write domains: { demo: { baseURL: "#
                    + #""http://127.0.0.1:8080" } }"#
            ]),
        Mistake(
            "an object that is not closed",
            """
            {
              domains: {
                a: { baseURL: "https://h.example" },

            """,
            [
                #"4:1: error: the file ends inside the object that begins in line 2; expected "}""#
            ]),
        Mistake(
            "a closing bracket of the wrong kind",
            """
            { domains: { a: { mirrors: ["https://h.example"} } }
            """,
            [
                #"1:48: error: expected "]" to close the array that begins in line 1, found "}""#
            ]),
        Mistake(
            "a missing comma",
            """
            { domains: { a: { baseURL: "https://h.example" timeout: "5s" } } }
            """,
            [
                #"1:48: error: expected "," before "timeout""#
            ]),
        Mistake(
            "a missing colon",
            """
            { domains = {} }
            """,
            [
                #"1:11: error: expected ":" after the key "domains", found "=""#
            ]),
        Mistake(
            "two commas",
            """
            { defaults: {},, domains: {} }
            """,
            [
                #"1:16: error: expected a key, found ",""#
            ]),
        Mistake(
            "a string that is not closed",
            """
            { domains: { a: { baseURL: "https://h.example
            } } }
            """,
            [
                #"1:28: error: the string is not closed in its line; expected ""#
            ]),
        Mistake(
            "a comment that is not closed",
            """
            { domains: {} } /* end
            """,
            [
                "1:17: error: the comment is not closed; expected */"
            ]),
        Mistake(
            "a duration without quotes",
            """
            { domains: { a: { baseURL: "https://h.example/api", timeout: 60s } } }
            """,
            [
                #"1:62: error: "60s" is not a number; durations are written in quotes: "60s""#
            ]),
        Mistake(
            "a word without quotes",
            """
            { domains: { a: { baseURL: "https://h.example/api", cache: http } } }
            """,
            [
                #"1:60: error: expected a value, found "http"; strings need quotes"#
            ]),
        Mistake(
            "a capitalized Boolean",
            """
            { domains: { a: { baseURL: "https://h.example/api", allowsAbsolute: True } } }
            """,
            [
                #"1:69: error: expected a value, found "True"; did you mean true?"#
            ]),
        Mistake(
            "a key that needs quotes",
            """
            { domains: { a: { baseURL: "https://h.example/api" } }, servers: { user.detail: {} } }
            """,
            [
                #"1:68: error: the key "user.detail" needs quotes"#
            ]),
        Mistake(
            "a number as key",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { code: "c", success: [1], messages: { 10001: "x" } } } } }
            """,
            [
                #"1:102: error: expected a key, found "10001"; keys like this one need quotes"#
            ]),
        Mistake(
            "a number with a leading zero",
            """
            { domains: { a: { baseURL: "https://h.example/api", retries: 01 } } }
            """,
            [
                #"1:62: error: "01" is not a number"#
            ]),
        Mistake(
            "text after the table",
            """
            { domains: { a: { baseURL: "https://h.example/api" } } } }
            """,
            [
                #"1:58: error: expected the end of the file, found "}""#
            ]),
        Mistake(
            "half a surrogate pair",
            #"""
            { domains: { a: { baseURL: "https://h.example/api", headers: { A: "\uD800" } } } }
            """#,
            [
                "1:68: error: half a surrogate pair is not a character; write both halves, or the "
                    + "character itself"
            ]),
        Mistake(
            "an escaped digit",
            #"""
            { domains: { a: { baseURL: "https://h.example/api", headers: { A: "\1" } } } }
            """#,
            [
                #"1:68: error: a digit cannot be escaped; write \xHH or \uHHHH"#
            ]),
        Mistake(
            "an unknown key at the top",
            """
            { domains: { a: { baseURL: "https://h.example/api" } }, server: {} }
            """,
            [
                #"1:57: error: unknown key "server"; did you mean "servers"?"#
            ]),
        Mistake(
            "a mistyped key",
            """
            { domains: { a: { basURL: "https://h.example" } } }
            """,
            [
                #"1:19: error: unknown key "basURL"; did you mean "baseURL"?"#
            ]),
        Mistake(
            "a key of another program",
            """
            { domains: { a: { url: "https://h.example" } } }
            """,
            [
                #"1:19: error: unknown key "url"; did you mean "baseURL"?"#
            ]),
        Mistake(
            "a key of another kind of row",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "x", pins: [] } },
            }
            """,
            [
                #"3:43: error: unknown key "pins"; it belongs in a domain or tls"#
            ]),
        Mistake(
            "an unknown key without a similar name",
            """
            { domains: { a: { baseURL: "https://h.example/api", colour: "red" } } }
            """,
            [
                #"1:53: error: unknown key "colour"; a domain has baseURL, environments, mirrors, pins, timeout, "#
                    + "connectTimeout, idleTimeout, deadline, maxConnectionsPerHost, retries, retry, events, limits, circuit, cache, ttl, "
                    + "parameterEncoding, dates, keys, proxy, tls, redirects, simulate, envelope, errors, pages, "
                    + "volatileParameters, "
                    + "cachePartition, authenticator, sealer, contentCoding, headers, parameters, secretHeaders"
            ]),
        Mistake(
            "a key twice",
            """
            { domains: { a: { baseURL: "https://h.example/api", timeout: "5s",
              timeout: "6s" } } }
            """,
            [
                #"2:3: error: duplicate key "timeout"; the first is in line 1"#
            ]),
        Mistake(
            "a domain twice",
            """
            {
              domains: {
                a: { baseURL: "https://h.example" },
                a: { baseURL: "https://i.example" },
              },
            }
            """,
            [
                #"4:5: error: duplicate domain "a"; the first is in line 3"#
            ]),
        Mistake(
            "a server twice",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: {
                s: { domain: "a", path: "x" },
                s: { domain: "a", path: "y" },
              },
            }
            """,
            [
                #"5:5: error: duplicate server "s"; the first is in line 4"#
            ]),
        Mistake(
            "a row without a name",
            """
            { domains: { "": { baseURL: "https://h.example" } } }
            """,
            [
                "1:14: error: the name of a domain is empty"
            ]),
        Mistake(
            "rows as an array",
            """
            { domains: [{ baseURL: "https://h.example" }] }
            """,
            [
                #"1:12: error: "domains" must be an object { … }, found an array"#
            ]),
        Mistake(
            "a row as a string",
            """
            { domains: { a: "https://h.example" } }
            """,
            [
                #"1:17: error: the domain "a" must be an object { … }, found the string "#
                    + #""https://h.example""#
            ]),
        Mistake(
            "no base URL",
            """
            { domains: { a: {} } }
            """,
            [
                #"1:14: error: the domain "a" has no "baseURL"; write baseURL: "https://…""#
            ]),
        Mistake(
            "a base URL without a scheme",
            """
            { domains: { a: { baseURL: "app.example.org/api" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "app.example.org/api" "#
                    + #"has no scheme; did you mean "https://app.example.org/api"?"#
            ]),
        Mistake(
            "a base URL with one slash",
            """
            { domains: { a: { baseURL: "https:/app.example.org" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "#
                    + #""https:/app.example.org" has no scheme; did you mean "https://app.example.org"?"#
            ]),
        Mistake(
            "a mistyped scheme",
            """
            { domains: { a: { baseURL: "htps://app.example.org" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "#
                    + #""htps://app.example.org" has the scheme "htps"; did you mean "#
                    + #""https://app.example.org"?"#
            ]),
        Mistake(
            "a scheme that is not HTTP",
            """
            { domains: { a: { baseURL: "ftp://app.example.org" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "#
                    + #""ftp://app.example.org" has the scheme "ftp""#
            ]),
        Mistake(
            "a base URL without a host",
            """
            { domains: { a: { baseURL: "https:///api" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "https:///api" has "#
                    + "no host"
            ]),
        Mistake(
            "a base URL with a fragment",
            """
            { domains: { a: { baseURL: "https://h.example/#top" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "#
                    + #""https://h.example/#top" has a fragment (#), which is never sent"#
            ]),
        Mistake(
            "a base URL with a space",
            """
            { domains: { a: { baseURL: "https://h.example/a b" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "https://h.example/a "#
                    + #"b" contains a space"#
            ]),
        Mistake(
            "a base URL with a bad port",
            """
            { domains: { a: { baseURL: "http://h.example:80800" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "#
                    + #""http://h.example:80800" has the port "80800"; ports go from 1 to 65535"#
            ]),
        Mistake(
            "a base URL with a parameter",
            """
            { domains: { a: { baseURL: "http://h.example/{id}" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "#
                    + #""http://h.example/{id}" has a path parameter; those belong in the path of a server"#
            ]),
        Mistake(
            "a base URL with a dot segment",
            """
            { domains: { a: { baseURL: "http://h.example/a/../b" } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL; "#
                    + #""http://h.example/a/../b" has the segment ".." or "." in its path"#
            ]),
        Mistake(
            "a base URL with a password",
            """
            { domains: { a: { baseURL: "http://ada:secret@h.example" } } }
            """,
            [
                #"1:28: warning: "baseURL" contains a user name or password, visible to everyone "#
                    + "who reads the file or a log; set request.authentication in code"
            ]),
        Mistake(
            "a base URL that is a number",
            """
            { domains: { a: { baseURL: 8080 } } }
            """,
            [
                #"1:28: error: "baseURL" must be an absolute http or https URL, found the number 8080"#
            ]),
        Mistake(
            "an environment without a scheme",
            """
            { domains: { a: { baseURL: "https://h.example/api", environments: { dev: "localhost:8080" } } } }
            """,
            [
                #"1:74: error: "dev" must be an absolute http or https URL; "localhost:8080" has no "#
                    + #"scheme; did you mean "http://localhost:8080"?"#
            ]),
        Mistake(
            "an empty environment",
            """
            { domains: { a: { baseURL: "https://h.example/api", environments: { dev: [] } } } }
            """,
            [
                #"1:74: error: "dev" must be a URL, or an array of a URL and its mirrors, found an "#
                    + "array"
            ]),
        Mistake(
            "an environment twice",
            """
            { domains: { a: { baseURL: "https://h.example/api", environments: { dev: "http://i.example", dev: "http://j.example" } } } }
            """,
            [
                #"1:94: error: duplicate environment "dev"; the first is in line 1"#
            ]),
        Mistake(
            "environments as a string",
            """
            { domains: { a: { baseURL: "https://h.example/api", environments: "http://i.example" } } }
            """,
            [
                #"1:67: error: "environments" must be an object { … }, found the string "#
                    + #""http://i.example""#
            ]),
        Mistake(
            "a mirror equal to the base URL",
            """
            { domains: { a: { baseURL: "https://h.example/api", mirrors: ["HTTPS://H.example:443/api/"] } } }
            """,
            [
                "1:63: error: mirror 1 is the same as the base URL; mirrors must differ"
            ]),
        Mistake(
            "a mirror twice",
            """
            { domains: { a: { baseURL: "https://h.example/api", mirrors: ["https://i.example", "https://i.example/"] } } }
            """,
            [
                "1:84: error: mirror 2 is the same as mirror 1; mirrors must differ"
            ]),
        Mistake(
            "mirrors as a string",
            """
            { domains: { a: { baseURL: "https://h.example/api", mirrors: "https://i.example" } } }
            """,
            [
                #"1:62: error: "mirrors" must be an array of URLs, found the string "https://i.example"; "#
                    + #"write ["https://i.example"]"#
            ]),
        Mistake(
            "a number as duration",
            """
            { domains: { a: { baseURL: "https://h.example/api", timeout: 60 } } }
            """,
            [
                #"1:62: error: "timeout" must be a duration such as "250ms", "60s", "5m", "1h30m" or "#
                    + #""2d", found the number 60; write "60s" for seconds"#
            ]),
        Mistake(
            "a duration in words",
            """
            { domains: { a: { baseURL: "https://h.example/api", timeout: "60 seconds" } } }
            """,
            [
                #"1:62: error: "timeout" must be a duration such as "250ms", "60s", "5m", "1h30m" or "#
                    + #""2d", found the string "60 seconds"; did you mean "60s"?"#
            ]),
        Mistake(
            "a duration in the wrong order",
            """
            { domains: { a: { baseURL: "https://h.example/api", timeout: "30m1h" } } }
            """,
            [
                #"1:62: error: "timeout" must be a duration such as "250ms", "60s", "5m", "1h30m" or "#
                    + #""2d", found the string "30m1h""#
            ]),
        Mistake(
            "a negative duration",
            """
            { domains: { a: { baseURL: "https://h.example/api", timeout: "-5s" } } }
            """,
            [
                #"1:62: error: "timeout" must be a duration such as "250ms", "60s", "5m", "1h30m" or "#
                    + #""2d", found the string "-5s""#
            ]),
    ]
}
