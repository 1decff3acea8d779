/// Tables with a mistake, and the expected diagnostics as `line:column: severity: message`.
extension Mistake {
    static let ofSettingsAndServers: [Mistake] = [
        Mistake(
            "a duration of zero",
            """
            { domains: { a: { baseURL: "https://h.example/api", timeout: "0s" } } }
            """,
            [
                #"1:62: error: "timeout" must be longer than zero, found the string "0s""#
            ]),
        Mistake(
            "too many connections",
            """
            { domains: { a: { baseURL: "https://h.example/api", maxConnectionsPerHost: 0 } } }
            """,
            [
                #"1:76: error: "maxConnectionsPerHost" must be a whole number from 1 to 10000, found "#
                    + "the number 0"
            ]),
        Mistake(
            "a fractional number of retries",
            """
            { domains: { a: { baseURL: "https://h.example/api", retries: 1.5 } } }
            """,
            [
                #"1:62: error: "retries" must be a whole number from 0 to 100, found the number 1.5"#
            ]),
        Mistake(
            "a mistyped policy",
            """
            { domains: { a: { baseURL: "https://h.example/api", cache: "cacheElseNetwrk", ttl: "5m" } } }
            """,
            [
                #"1:60: error: unknown value "cacheElseNetwrk" of "cache"; did you mean "#
                    + #""cacheElseNetwork"?"#
            ]),
        Mistake(
            "an unknown policy",
            """
            { domains: { a: { baseURL: "https://h.example/api", cache: "always" } } }
            """,
            [
                #"1:60: error: unknown value "always" of "cache"; expected "networkOnly", "writeOnly", "#
                    + #""cacheOnly", "cacheElseNetwork", "cacheThenNetwork", "networkElseCache" or "http""#
            ]),
        Mistake(
            "a policy without a time to live",
            """
            { domains: { a: { baseURL: "https://h.example/api", cache: "cacheElseNetwork" } } }
            """,
            [
                #"1:60: error: "cacheElseNetwork" needs a time to live; add ttl: "5m""#
            ]),
        Mistake(
            "a time to live without a policy",
            """
            { domains: { a: { baseURL: "https://h.example/api", ttl: "5m" } } }
            """,
            [
                #"1:58: error: "ttl" has no effect without "cache"; add cache: "cacheElseNetwork""#
            ]),
        Mistake(
            "a time to live without effect",
            """
            { domains: { a: { baseURL: "https://h.example/api", cache: "networkOnly", ttl: "5m" } } }
            """,
            [
                #"1:80: warning: "ttl" has no effect with cache: "networkOnly""#
            ]),
        Mistake(
            "a time to live that only a server uses",
            """
            {
              domains: { a: { baseURL: "https://h.example/api", cache: "networkOnly", ttl: "5m" } },
              servers: { s: { domain: "a", path: "s", cache: "cacheElseNetwork" } },
            }
            """,
            []),
        Mistake(
            "a mistyped time to live",
            """
            { domains: { a: { baseURL: "https://h.example/api", cache: "http", ttl: "forevr" } } }
            """,
            [
                #"1:73: error: unknown value "forevr" of "ttl"; did you mean "forever"?"#
            ]),
        Mistake(
            "a mistyped encoding",
            """
            { domains: { a: { baseURL: "https://h.example/api", parameterEncoding: "from" } } }
            """,
            [
                #"1:72: error: unknown value "from" of "parameterEncoding"; did you mean "form"?"#
            ]),
        Mistake(
            "a mistyped redirect",
            """
            { domains: { a: { baseURL: "https://h.example/api", redirects: "non" } } }
            """,
            [
                #"1:64: error: unknown value "non" of "redirects"; did you mean "none"?"#
            ]),
        Mistake(
            "too many redirects",
            """
            { domains: { a: { baseURL: "https://h.example/api", redirects: 1000 } } }
            """,
            [
                #"1:64: error: "redirects" must be "automatic", "none" or a number of hops from 0 to "#
                    + "100, found the number 1000"
            ]),
        Mistake(
            "a proxy without a scheme",
            """
            { domains: { a: { baseURL: "https://h.example/api", proxy: "127.0.0.1:3128" } } }
            """,
            [
                #"1:60: error: "proxy" must be a proxy's URL, "direct" or "environment", found the "#
                    + #"string "127.0.0.1:3128"; write the scheme too, as in "http://127.0.0.1:3128""#
            ]),
        Mistake(
            "a mistyped proxy",
            """
            { domains: { a: { baseURL: "https://h.example/api", proxy: "socks://127.0.0.1:1080" } } }
            """,
            [
                #"1:60: error: unknown value "socks" of "proxy"; did you mean "socks4"?"#
            ]),
        Mistake(
            "a pin with one slash",
            """
            { domains: { a: { baseURL: "https://h.example/api", pins: ["sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] } } }
            """,
            [
                #"1:60: error: a pin must be "sha256//" and the Base64 of 32 bytes, found the string "#
                    + #""sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="; write two slashes after sha256"#
            ]),
        Mistake(
            "a pin in hexadecimal",
            """
            { domains: { a: { baseURL: "https://h.example/api", pins: ["abababababababababababababababababababababababababababababababab"] } } }
            """,
            [
                #"1:60: error: a pin must be "sha256//" and the Base64 of 32 bytes, found the string "#
                    + #""abababababababababababababababababababababababababababababab…"; this is "#
                    + "hexadecimal, write it as Base64"
            ]),
        Mistake(
            "a pin that is too short",
            """
            { domains: { a: { baseURL: "https://h.example/api", pins: ["sha256//AAAA"] } } }
            """,
            [
                #"1:60: error: a pin must be "sha256//" and the Base64 of 32 bytes, found the string "#
                    + #""sha256//AAAA""#
            ]),
        Mistake(
            "a header with a space",
            """
            { domains: { a: { baseURL: "https://h.example/api", headers: { "X App": "1" } } } }
            """,
            [
                #"1:64: error: "X App" cannot be the name of a header; did you mean "X-App"?"#
            ]),
        Mistake(
            "a header with a line break",
            #"""
            { domains: { a: { baseURL: "https://h.example/api", headers: { "X-App": "a\r\nEvil: 1" } } } }
            """#,
            [
                #"1:73: error: the header "X-App" contains a line break or another control character"#
            ]),
        Mistake(
            "a header with a control character in its name",
            #"""
            { domains: { a: { baseURL: "https://h.example/api", headers: { "X\u0007": 2, "x\u0007": null } } } }
            """#,
            [
                #"1:64: error: "X\u{7}" cannot be the name of a header"#,
                #"1:75: error: the header "X\u{7}" must be a string, or null to remove it, found the number 2; write "2""#,
                #"1:78: error: "x\u{7}" cannot be the name of a header"#,
                #"1:78: error: the header "x\u{7}" repeats "X\u{7}" of line 1; case does not matter"#,
            ]),
        Mistake(
            "a header that is a number",
            """
            { domains: { a: { baseURL: "https://h.example/api", headers: { "X-App": 2 } } } }
            """,
            [
                #"1:73: error: the header "X-App" must be a string, or null to remove it, found the "#
                    + #"number 2; write "2""#
            ]),
        Mistake(
            "a header in two spellings",
            """
            { domains: { a: { baseURL: "https://h.example/api", headers: {
                "X-App": "1",
                "x-app": "2",
              } } } }
            """,
            [
                #"3:5: error: the header "x-app" repeats "X-App" of line 2; case does not matter"#
            ]),
        Mistake(
            "a secret header with an invalid name",
            """
            { domains: { a: { baseURL: "https://h.example/api", secretHeaders: ["X-Api Key"] } } }
            """,
            [
                #"1:69: error: "X-Api Key" cannot be the name of a header; did you mean "X-Api-Key"?"#
            ]),
        Mistake(
            "secret headers as a string",
            """
            { domains: { a: { baseURL: "https://h.example/api", secretHeaders: "X-Api-Key" } } }
            """,
            [
                #"1:68: error: "secretHeaders" must be an array of strings, found the string "X-Api-Key"; "#
                    + #"write ["X-Api-Key"]"#
            ]),
        Mistake(
            "a parameter that is not JSON",
            """
            { domains: { a: { baseURL: "https://h.example/api", parameters: { a: NaN } } } }
            """,
            [
                #"1:70: error: the parameter "a" must be a JSON value, found the number NaN"#
            ]),
        Mistake(
            "an empty volatile parameter",
            """
            { domains: { a: { baseURL: "https://h.example/api", volatileParameters: [""] } } }
            """,
            [
                #"1:74: error: an element of "volatileParameters" must be the name of a parameter, "#
                    + #"found the string """#
            ]),
        Mistake(
            "an envelope without a code",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { success: [0] } } } }
            """,
            [
                #"1:63: error: the envelope has no "code"; write its path, such as code: "status""#
            ]),
        Mistake(
            "an envelope without success",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { code: "status" } } } }
            """,
            [
                #"1:63: error: the envelope has no "success"; write the codes that mean success, such "#
                    + "as success: [0]"
            ]),
        Mistake(
            "pages in two ways",
            """
            { domains: { a: { baseURL: "https://h.example/api", pages: { cursor: "c", offset: "o" } } } }
            """,
            [
                #"1:60: error: "pages" has "cursor" and "offset", but a page says in one way which one is next; "#
                    + "leave one of them"
            ]),
        Mistake(
            "a detail of other pages",
            """
            { domains: { a: { baseURL: "https://h.example/api", pages: { address: "next", first: 2 } } } }
            """,
            [
                #"1:86: error: "first" belongs to "number" or "offset" of the pages; add it, or leave "first" out"#
            ]),
        Mistake(
            "errors without a code",
            """
            { domains: { a: { baseURL: "https://h.example/api", errors: { message: "error.message" } } } }
            """,
            [
                #"1:61: error: "errors" has no "code"; write its path, such as code: "error.code""#
            ]),
        Mistake(
            "a misspelt key of errors",
            """
            { domains: { a: { baseURL: "https://h.example/api", errors: { code: "c", detail: "d" } } } }
            """,
            [
                #"1:74: error: unknown key "detail"; did you mean "details"?"#
            ]),
        Mistake(
            "an envelope with no success codes",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { code: "status", success: [] } } } }
            """,
            [
                #"1:90: error: "success" is empty, so no response could succeed"#
            ]),
        Mistake(
            "success as a number",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { code: "status", success: 0 } } } }
            """,
            [
                #"1:90: error: "success" must be an array of numbers and strings, found the number 0; "#
                    + "write [0]"
            ]),
        Mistake(
            "a success code of the wrong type",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { code: "status", success: [true] } } } }
            """,
            [
                #"1:91: error: an element of "success" must be a number or a string, found true"#
            ]),
        Mistake(
            "a success code twice",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { code: "status", success: [0, 0] } } } }
            """,
            [
                #"1:94: warning: "success" contains the number 0 twice"#
            ]),
        Mistake(
            "an envelope path with an empty name",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { code: "result..code", success: [0] } } } }
            """,
            [
                #"1:71: error: "code" must be a path such as "status" or "result.code", found the string "#
                    + #""result..code"; a name between the dots is empty"#
            ]),
        Mistake(
            "a message that is a number",
            """
            { domains: { a: { baseURL: "https://h.example/api", envelope: { code: "c", success: [0], messages: { "1": 2 } } } } }
            """,
            [
                #"1:107: error: "1" must be a string, found the number 2; write "2""#
            ]),
        Mistake(
            "an empty simulation",
            """
            { domains: { a: { baseURL: "https://h.example/api", simulate: {} } } }
            """,
            [
                #"1:63: error: "simulate" must have either "directory" or "baseURL""#
            ]),
        Mistake(
            "a simulation with both a directory and a URL",
            """
            { domains: { a: { baseURL: "https://h.example/api", simulate: { directory: "F", baseURL: "http://127.0.0.1" } } } }
            """,
            [
                #"1:63: error: "simulate" must have either "directory" or "baseURL""#
            ]),
        Mistake(
            "a server without a domain",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { path: "x" } },
            }
            """,
            [
                #"3:14: error: the server "s" has no "domain""#
            ]),
        Mistake(
            "a server without a path",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a" } },
            }
            """,
            [
                #"3:14: error: the server "s" has no "path""#
            ]),
        Mistake(
            "a server of an unknown domain",
            """
            {
              domains: { daxiang: { baseURL: "https://h.example" } },
              servers: { s: { domain: "daxian", path: "x" } },
            }
            """,
            [
                #"3:27: error: unknown domain "daxian"; did you mean "daxiang"?"#
            ]),
        Mistake(
            "a misspelt form of dates",
            """
            { domains: { a: { baseURL: "https://h", dates: "unixSecond" } } }
            """,
            [
                #"1:48: error: unknown value "unixSecond" of "dates"; did you mean "unixSeconds"?"#
            ]),
        Mistake(
            "a pattern of dates with another letter",
            """
            { domains: { a: { baseURL: "https://h", dates: "yyyy-MM-dd EEE" } } }
            """,
            [
                #"1:48: error: "dates" has the letter "E", which is not one of y M d H m s S X Z; quote text, as in "yyyy-MM-dd'T'HH:mm""#
            ]),
        Mistake(
            "a pattern of dates with a field of the wrong width",
            """
            { domains: { a: { baseURL: "https://h", dates: "yyy-MM-dd" } } }
            """,
            [#"1:48: error: "dates" has "y" 3 times; write yy or yyyy"#]),
        Mistake(
            "a pattern of dates with an open quote",
            """
            { domains: { a: { baseURL: "https://h", dates: "yyyy-MM-dd'T" } } }
            """,
            [#"1:48: error: "dates" has a quote that is not closed"#]),
        Mistake(
            "an unknown form of dates",
            """
            { domains: { a: { baseURL: "https://h", dates: "soon" } } }
            """,
            [
                #"1:48: error: "dates" must be "iso8601", "unixSeconds", "unixMilliseconds", "secondsSince2001" or a pattern such as "yyyy-MM-dd HH:mm:ss", found the string "soon""#
            ]),
        Mistake(
            "a misspelt form of keys",
            """
            { domains: { a: { baseURL: "https://h", keys: "snakecase" } } }
            """,
            [
                #"1:47: error: unknown value "snakecase" of "keys"; did you mean "snakeCase"?"#
            ]),
        Mistake(
            "an authenticator without a name",
            """
            { domains: { a: { baseURL: "https://h", authenticator: "" } } }
            """,
            [
                #"1:56: error: "authenticator" must be the name of an authenticator, or null for none, found the string """#
            ]),
        Mistake(
            "a server of an unknown domain without a similar name",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "zzzzzz", path: "x" } },
            }
            """,
            [
                #"3:27: error: unknown domain "zzzzzz"; the domains are a"#
            ]),
        Mistake(
            "a server in a table without domains",
            """
            { domains: {}, servers: { s: { domain: "a", path: "x" } } }
            """,
            [
                #"1:40: error: unknown domain "a"; there are no domains"#
            ]),
        Mistake(
            "a method with a space",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "x", method: "GE T" } },
            }
            """,
            [
                #"3:51: error: "method" must be a method such as "GET", found the string "GE T"; did you "#
                    + #"mean "GET"?"#
            ]),
        Mistake(
            "a mistyped method",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "x", method: "PSOT" } },
            }
            """,
            [
                #"3:51: warning: the method "PSOT" is uncommon; did you mean "POST"?"#
            ]),
        Mistake(
            "a method in the wrong case",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: {
                s: { domain: "a", path: "x", method: "propfind" }, t: { domain: "a", path: "x", method: "PROPFIND" },
                u: { domain: "a", path: "x", method: "get" },
              },
            }
            """,
            [
                #"4:42: warning: the method "propfind" is uncommon; did you mean "PROPFIND"?"#
            ]),
        Mistake(
            "the method CONNECT",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "x", method: "CONNECT" } },
            }
            """,
            [
                #"3:51: error: the method CONNECT is not for requests; proxies are set with "proxy""#
            ]),
        Mistake(
            "a parameter that is not closed",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "v1/{id" } },
            }
            """,
            [
                #"3:42: error: the path "v1/{id" cannot be used: { is not closed; write {name}"#
            ]),
        Mistake(
            "a parameter that was not opened",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "v1/id}" } },
            }
            """,
            [
                #"3:44: error: the path "v1/id}" cannot be used: } has no { before it"#
            ]),
        Mistake(
            "a parameter without a name",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "v1/{}" } },
            }
            """,
            [
                #"3:42: error: the path "v1/{}" cannot be used: {} has no name; write {name}"#
            ]),
        Mistake(
            "a parameter with a bad name",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "v1/{user id}" } },
            }
            """,
            [
                #"3:42: error: the path "v1/{user id}" cannot be used: {user id} is not a name; use "#
                    + "letters, digits, _, - and ."
            ]),
        Mistake(
            "a path with a dot segment",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "../admin" } },
            }
            """,
            [
                #"3:39: error: the path "../admin" cannot be used: it has the segment ".." or ".", "#
                    + "which leaves the base URL"
            ]),
        Mistake(
            "a path with an escaped dot segment",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "v1/%2e%2E/admin" } },
            }
            """,
            [
                #"3:42: error: the path "v1/%2e%2E/admin" cannot be used: it has the segment ".." or "#
                    + #"".", which leaves the base URL"#
            ]),
        Mistake(
            "a path with a fragment",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "v1#top" } },
            }
            """,
            [
                #"3:41: error: the path "v1#top" cannot be used: it has a fragment (#), which is never "#
                    + "sent"
            ]),
        Mistake(
            "an absolute path",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "https://evil.example/x" } },
            }
            """,
            [
                #"3:38: error: the path "https://evil.example/x" is an absolute URL and would leave "#
                    + "the domain; write a path, or allowsAbsolute: true when that is meant"
            ]),
        Mistake(
            "an absolute path without a scheme",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "//evil.example/x" } },
            }
            """,
            [
                #"3:38: error: the path "//evil.example/x" is an absolute URL and would leave the "#
                    + "domain; write a path, or allowsAbsolute: true when that is meant"
            ]),
        Mistake(
            "an absolute path of another scheme",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "file:///etc/passwd", allowsAbsolute: true } },
            }
            """,
            [
                #"3:38: error: the path "file:///etc/passwd" must be an absolute http or https URL; it "#
                    + #"has the scheme "file""#
            ]),
        Mistake(
            "an absolute path with a parameter as host",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "https://{host}/x", allowsAbsolute: true } },
            }
            """,
            [
                #"3:38: error: the path "https://{host}/x" must be an absolute http or https URL; it "#
                    + "has no host"
            ]),
        Mistake(
            "allowsAbsolute that is not a Boolean",
            """
            {
              domains: { a: { baseURL: "https://h.example/api" } },
              servers: { s: { domain: "a", path: "x", allowsAbsolute: "yes" } },
            }
            """,
            [
                #"3:59: error: "allowsAbsolute" must be true or false, found the string "yes""#
            ]),
        Mistake(
            "a former name of a key",
            """
            { domains: { a: { baseURL: "https://h.example", compressBody: "gzip" },
                         b: { baseURL: "https://h.example", compressBody: "gzip", contentCoding: null },
                         c: { baseURL: "https://h.example", contentCoding: "zip" } } }
            """,
            [
                #"1:49: warning: the key "compressBody" is now called "contentCoding"; rename it"#,
                #"2:49: warning: the key "compressBody" is now called "contentCoding"; rename it"#,
                #"2:71: error: duplicate key "contentCoding"; the first is in line 2"#,
                #"3:64: error: unknown value "zip" of "contentCoding"; did you mean "gzip"?"#,
            ]),
        Mistake(
            "several mistakes at once",
            """
            {
              defaults: { timout: "60s" },
              domains: {
                a: { baseURL: "https//h.example", retries: -1 },
              },
              servers: {
                s: { domain: "b", path: "v1/{", method: "" },
              },
            }
            """,
            [
                #"2:15: error: unknown key "timout"; did you mean "timeout"?"#,
                #"4:19: error: "baseURL" must be an absolute http or https URL; "https//h.example" has "#
                    + "no scheme",
                #"4:48: error: "retries" must be a whole number from 0 to 100, found the number -1"#,
                #"7:18: error: unknown domain "b"; the domains are a"#,
                #"7:33: error: the path "v1/{" cannot be used: { is not closed; write {name}"#,
                #"7:45: error: "method" must be a method such as "GET", found the string """#,
            ]),
    ]
}
