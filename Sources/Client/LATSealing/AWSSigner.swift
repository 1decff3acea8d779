import Cryptography
import FoundationEssentials
public import HTTPCore

/// Signs requests for Amazon's services and compatible ones: AWS Signature Version 4, in the header.
///
/// ```swift
/// configuration.signer = try AWSSigner(
///     accessKeyID: "AKIDEXAMPLE", secretAccessKey: password, region: "eu-central-1", service: "s3")
/// ```
///
/// The signature covers method, path, query, body, `Host`, `Content-Type` and every `X-Amz-` field. Data and files are
/// signed with their digest. Streams and multipart bodies are sent as `UNSIGNED-PAYLOAD`, which only some services
/// accept, among them S3.
///
/// libcurl's `CURLOPT_AWS_SIGV4` is not used: older versions do not sort the query, and need the whole body in memory.
public struct AWSSigner: RequestSigner {
    /// The identifier of the key.
    public let identity: String
    private let secretAccessKey: String
    private let sessionToken: String?
    private let region: String
    private let service: String
    /// Seconds since 1970.
    var clock: @Sendable () -> Int64 = { SealingCore.systemClock() / 1000 }

    /// Creates a signer.
    ///
    /// - Parameters:
    ///   - accessKeyID: The identifier of the key.
    ///   - secretAccessKey: The key.
    ///   - sessionToken: The token of temporary credentials. Default `nil`: the credentials are permanent.
    ///   - region: The region, such as `eu-central-1`.
    ///   - service: The service, such as `s3` or `execute-api`.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for an empty or unusable value.
    public init(
        accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil, region: String, service: String
    ) throws(NetworkError) {
        // Messages name the parameter, because its value may be secret.
        for (name, value) in [
            ("accessKeyID", accessKeyID), ("secretAccessKey", secretAccessKey), ("sessionToken", sessionToken ?? "-"),
            ("region", region), ("service", service),
        ] where value.isEmpty || !value.utf8.allSatisfy({ (0x21..<0x7F).contains($0) }) {
            throw .invalidRequest(
                "\(name) is empty, or has other than visible ASCII characters; give it as AWS shows it")
        }
        identity = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
        self.region = region
        self.service = service
    }

    /// Returns the header fields of the signature.
    public func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders {
        let time = Self.text(of: clock())
        let payload = digest ?? "UNSIGNED-PAYLOAD"
        var added: HTTPHeaders = ["X-Amz-Date": time]
        if let sessionToken { added["X-Amz-Security-Token"] = sessionToken }
        if service == "s3" || digest == nil { added["X-Amz-Content-Sha256"] = payload }

        let fields = signedFields(of: request, with: added)
        let names = fields.map(\.name).joined(separator: ";")
        let target = request.wireTarget
        let path = String(target.prefix { $0 != "?" })
        let lines =
            [
                request.method.rawValue, canonicalPath(path),
                Self.canonicalQuery(target.dropFirst(path.count).dropFirst()),
            ]
            + fields.map { "\($0.name):\($0.value)" } + ["", names, payload]
        let day = String(time.prefix(8))
        let scope = "\(day)/\(region)/\(service)/aws4_request"
        let canonical = Data(lines.joined(separator: "\n").utf8)
        let digest = MessageDigest.hexadecimal(try MessageDigest.of(canonical, .sha256))
        let text = "AWS4-HMAC-SHA256\n\(time)\n\(scope)\n\(digest)"

        var key = Array("AWS4\(secretAccessKey)".utf8)
        for part in [day, region, service, "aws4_request"] { key = try MessageDigest.hmac(Array(part.utf8), key: key) }
        let signature = MessageDigest.hexadecimal(try MessageDigest.hmac(Array(text.utf8), key: key))
        added["Authorization"] =
            "AWS4-HMAC-SHA256 Credential=\(identity)/\(scope), SignedHeaders=\(names), Signature=\(signature)"
        return added
    }

    private func signedFields(
        of request: HTTPRequest, with added: HTTPHeaders
    ) -> [(name: String, value: String)] {
        var headers = request.signedHeaders.merging(added)
        headers["Host"] = request.wireHost
        var names: Set<String> = ["host"]
        for (name, _) in headers {
            let name = name.lowercased()
            if name.hasPrefix("x-amz-") || name == "content-type" { names.insert(name) }
        }
        return CanonicalRequest.values(of: names.sorted(), in: headers).map { field in
            (field.name, field.value.split(separator: " ").joined(separator: " "))
        }
    }

    /// All services but S3 require the encoded path to be encoded again.
    private func canonicalPath(_ path: String) -> String {
        service == "s3"
            ? path
            : path.split(separator: "/", omittingEmptySubsequences: false).map { String($0).percentEncodedComponent }
                .joined(separator: "/")
    }

    private static func canonicalQuery(_ query: Substring) -> String {
        let pairs = query.split(separator: "&").map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                .map { ($0.percentDecodedBytes ?? Array($0.utf8)).percentEncodedComponent }
            return (name: parts[0], value: parts.count > 1 ? parts[1] : "")
        }
        // By name, then by value: "=" is not part of the order. The encoded text is ASCII.
        return pairs.sorted { ($0.name, $0.value) < ($1.name, $1.value) }.map { "\($0.name)=\($0.value)" }
            .joined(separator: "&")
    }

    /// Formats a time, as in `20150830T123600Z`.
    private static func text(of seconds: Int64) -> String {
        let text = Date.ISO8601FormatStyle().format(Date(timeIntervalSince1970: Double(seconds)))
        return String(text.unicodeScalars.filter { $0 != "-" && $0 != ":" })
    }
}
