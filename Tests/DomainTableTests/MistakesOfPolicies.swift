/// Tables with a mistake in `retry`, `events`, `limits`, `circuit` or `tls`.
extension Mistake {
    static let ofPolicies: [Mistake] = [
        Mistake(
            "a mistyped member of retry",
            """
            { domains: { a: { baseURL: "https://h.example/api", retry: { retrys: 3 } } } }
            """,
            [
                #"1:62: error: unknown key "retrys"; did you mean "retries"?"#
            ]),
        Mistake(
            "retry that is a number",
            """
            { domains: { a: { baseURL: "https://h.example/api", retry: 3 } } }
            """,
            [
                #"1:60: error: "retry" must be an object { … }, found the number 3"#
            ]),
        Mistake(
            "retries twice",
            """
            { domains: { a: { baseURL: "https://h.example/api", retries: 1, retry: { retries: 2 } } } }
            """,
            [
                #"1:83: error: "retries" is given twice, first in line 1; remove one"#
            ]),
        Mistake(
            "a status that is none",
            """
            { domains: { a: { baseURL: "https://h.example/api", retry: { statuses: [99] } } } }
            """,
            [
                #"1:73: error: an element of "statuses" must be a status from 100 to 599, found the number 99"#
            ]),
        Mistake(
            "a status without brackets",
            """
            { domains: { a: { baseURL: "https://h.example/api", retry: { statuses: 502 } } } }
            """,
            [
                #"1:72: error: "statuses" must be an array of statuses, found the number 502; write [502]"#
            ]),
        Mistake(
            "a wait without a unit",
            """
            { domains: { a: { baseURL: "https://h.example/api", retry: { firstWait: 1 } } } }
            """,
            [
                #"1:73: error: "firstWait" must be a duration such as "250ms", "60s", "5m", "1h30m" or "2d", found the number 1; write "1s" for seconds"#
            ]),
        Mistake(
            "a mistyped member of events",
            """
            { domains: { a: { baseURL: "https://h.example/api", events: { reconect: true } } } }
            """,
            [
                #"1:63: error: unknown key "reconect"; did you mean "reconnect"?"#
            ]),
        Mistake(
            "reconnecting as a text",
            """
            { domains: { a: { baseURL: "https://h.example/api", events: { reconnect: "yes" } } } }
            """,
            [
                #"1:74: error: "reconnect" must be true or false, found the string "yes""#
            ]),
        Mistake(
            "a first wait that is longer than the longest",
            """
            { domains: { a: { baseURL: "https://h.example/api", events: { firstWait: "1m", longestWait: "30s" } } } }
            """,
            [
                #"1:74: error: "firstWait" must be at most "longestWait", found the string "1m""#
            ]),
        Mistake(
            "an event without data that ends the stream",
            """
            { domains: { a: { baseURL: "https://h.example/api", events: { endsAt: "" } } } }
            """,
            [
                #"1:71: error: "endsAt" must be the data of an event that ends the stream, such as "[DONE]", found the string """#
            ]),
        Mistake(
            "a flag of retry as text",
            """
            { domains: { a: { baseURL: "https://h.example/api", retry: { repeatsOnlyIdempotent: "no" } } } }
            """,
            [
                #"1:85: error: "repeatsOnlyIdempotent" must be true or false, found the string "no""#
            ]),
        Mistake(
            "a mistyped limit",
            """
            { domains: { a: { baseURL: "https://h.example/api", limits: { maxConcurentRequests: 3 } } } }
            """,
            [
                #"1:63: error: unknown key "maxConcurentRequests"; did you mean "maxConcurrentRequests"?"#
            ]),
        Mistake(
            "a limit of nothing",
            """
            { domains: { a: { baseURL: "https://h.example/api", limits: { maxConcurrentRequests: 0 } } } }
            """,
            [
                #"1:86: error: "maxConcurrentRequests" must be a whole number from 1 to 1000000, found the number 0"#
            ]),
        Mistake(
            "a rate of nothing",
            """
            { domains: { a: { baseURL: "https://h.example/api", limits: { rate: 0 } } } }
            """,
            [
                #"1:69: error: "rate" must be a number of requests per second above 0, found the number 0"#
            ]),
        Mistake(
            "a rate without its number",
            """
            { domains: { a: { baseURL: "https://h.example/api", limits: { rate: { burst: 3 } } } } }
            """,
            [
                #"1:69: error: the rate has no "perSecond"; write the requests per second, such as perSecond: 20"#
            ]),
        Mistake(
            "a mistyped rate",
            """
            { domains: { a: { baseURL: "https://h.example/api", limits: { rate: { perSeconds: 3 } } } } }
            """,
            [
                #"1:71: error: unknown key "perSeconds"; did you mean "perSecond"?"#
            ]),
        Mistake(
            "a mistyped circuit",
            """
            { domains: { a: { baseURL: "https://h.example/api", circut: { failures: 3 } } } }
            """,
            [
                #"1:53: error: unknown key "circut"; did you mean "circuit"?"#
            ]),
        Mistake(
            "a circuit of no failure",
            """
            { domains: { a: { baseURL: "https://h.example/api", circuit: { failures: 0 } } } }
            """,
            [
                #"1:74: error: "failures" must be a whole number from 1 to 1000000, found the number 0"#
            ]),
        Mistake(
            "a pause that is none",
            """
            { domains: { a: { baseURL: "https://h.example/api", circuit: { pause: "soon" } } } }
            """,
            [
                #"1:71: error: "pause" must be a duration such as "250ms", "60s", "5m", "1h30m" or "2d", found the string "soon""#
            ]),
        Mistake(
            "a mistyped authority",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { cafile: "ca.pem" } } } }
            """,
            [
                #"1:60: error: unknown key "cafile"; did you mean "caFile"?"#
            ]),
        Mistake(
            "the name of another program for tls",
            """
            { domains: { a: { baseURL: "https://h.example/api", ssl: { } } } }
            """,
            [
                #"1:53: error: unknown key "ssl"; did you mean "tls"?"#
            ]),
        Mistake(
            "an empty path",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { caFile: "" } } } }
            """,
            [
                #"1:68: error: "caFile" must be the path of a PEM file of trusted certificates, found the string """#
            ]),
        Mistake(
            "an old version",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { minimumVersion: "1.1" } } } }
            """,
            [
                #"1:76: error: unknown value "1.1" of "minimumVersion"; did you mean "1.2"?"#
            ]),
        Mistake(
            "a version as a number",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { minimumVersion: 1.3 } } } }
            """,
            [
                #"1:76: error: "minimumVersion" must be "1.2" or "1.3", found the number 1.3"#
            ]),
        Mistake(
            "a certificate without a key",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { clientCertificate: { certificate: "c.pem" } } } } }
            """,
            [
                #"1:79: error: "clientCertificate" must have either "file" (PKCS#12), or "certificate" and "key" (PEM)"#
            ]),
        Mistake(
            "a certificate in two forms",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { clientCertificate: { file: "c.p12", key: "k.pem" } } } } }
            """,
            [
                #"1:79: error: "clientCertificate" must have either "file" (PKCS#12), or "certificate" and "key" (PEM)"#
            ]),
        Mistake(
            "a mistyped variable",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { clientCertificate: { file: "c.p12", passwordVariabel: "X" } } } } }
            """,
            [
                #"1:96: error: unknown key "passwordVariabel"; did you mean "passwordVariable"?"#
            ]),
        Mistake(
            "a variable that cannot be one",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { clientCertificate: { file: "c.p12", passwordVariable: "A B" } } } } }
            """,
            [
                #"1:114: error: "passwordVariable" must be the name of an environment variable, such as "CLIENT_KEY_PASSWORD", found the string "A B""#
            ]),
        Mistake(
            "a password twice",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { clientCertificate: { file: "c.p12", password: "x", passwordVariable: "X" } } } } }
            """,
            [
                #"1:129: error: "the password" is given twice, first in line 1; remove one"#
            ]),
        Mistake(
            "a password in the file",
            """
            { domains: { a: { baseURL: "https://h.example/api", tls: { clientCertificate: { file: "c.p12", password: "secret" } } } } }
            """,
            [
                #"1:106: warning: "password" is visible to everyone who reads the file; name an environment variable with "passwordVariable""#
            ]),
        Mistake(
            "pins twice",
            """
            { domains: { a: { baseURL: "https://h.example/api", pins: [], tls: { pins: [] } } } }
            """,
            [
                #"1:76: error: "pins" is given twice, first in line 1; remove one"#
            ]),
        Mistake(
            "tls and limits of a server",
            """
            { domains: { a: { baseURL: "http://h" } }, servers: { s: { domain: "a", path: "x",
              tls: { caFil: "ca.pem" }, limits: { rate: 0 }, circuit: { failure: 3 }, pins: [] } } }
            """,
            [
                #"2:10: error: unknown key "caFil"; did you mean "caFile"?"#,
                #"2:45: error: "rate" must be a number of requests per second above 0, found the number 0"#,
                #"2:61: error: unknown key "failure"; did you mean "failures"?"#,
                #"2:75: error: unknown key "pins"; it belongs in a domain or tls"#,
            ]),
    ]
}
