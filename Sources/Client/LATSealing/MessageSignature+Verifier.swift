import Cryptography
public import FoundationEssentials
public import HTTPCore

extension MessageSignature {
    /// Verifies the signatures of responses, and of requests for servers in Swift.
    ///
    /// As an interceptor of ``CentralRequestManager/Configuration/networkInterceptors`` it refuses every response that is not
    /// signed as it should be, with ``NetworkError/Kind/integrity``.
    public struct Verifier: Sendable {
        private let keys: [String: Key]
        private let required: [SignatureComponent]
        private let maxAge: Duration
        private let tag: String?
        /// Seconds since 1970.
        var clock: @Sendable () -> Int64 = { SealingCore.systemClock() / 1000 }

        /// How far in the future a signature may be made, for clocks that differ.
        private static let tolerance: Int64 = 60

        /// Creates a verifier.
        ///
        /// - Parameters:
        ///   - keys: The keys by their `keyid`, several during a rotation. Private ones verify, too.
        ///   - requires: The components that a signature must cover. An empty list accepts a signature that covers nothing.
        ///   - maxAge: The longest time since a signature was made (`created`). Default 5 min.
        ///   - tag: The `tag` that a signature must have. Default `nil`: any or none.
        /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for an unknown component.
        public init(
            keys: [String: Key], requires: [String], maxAge: Duration = .seconds(300), tag: String? = nil
        ) throws(NetworkError) {
            do {
                required = try MessageSignature.parsed(requires)
            } catch {
                throw .invalidRequest("the verifier cannot be made: \(error.reason)")
            }
            guard maxAge > .zero else {
                throw .invalidRequest("the maxAge of the verifier is \(maxAge); give more than 0")
            }
            self.keys = keys
            self.maxAge = maxAge
            self.tag = tag
        }

        /// Verifies a request as a server received it.
        ///
        /// - Parameters:
        ///   - request: Method, absolute URL and all fields.
        ///   - body: The body as it was received.
        /// - Returns: the signature, whose nonce the server has to remember until its time is over.
        /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/integrity`` with the reason.
        @discardableResult
        public func verify(_ request: HTTPRequest, body: Data) throws(NetworkError) -> Verified {
            try verify(SignedMessage(request: request), request.headers, body)
        }

        /// Verifies a response.
        ///
        /// - Parameters:
        ///   - response: The response, with its body collected.
        ///   - request: The request as it was sent, for components with `req`. Default `nil`: not known.
        /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/integrity`` with the reason.
        @discardableResult
        public func verify(
            _ response: HTTPResponse, to request: HTTPRequest? = nil
        ) throws(NetworkError) -> Verified {
            let message = SignedMessage(request: request, response: (response.status, response.headers))
            return try verify(message, response.headers, response.body.data, compared: response.comparedDigest)
        }

        /// - Parameters:
        ///   - body: `nil` for one that is read as a stream.
        ///   - compared: The `Content-Digest` that the bytes on the wire agree with, before they were decoded.
        private func verify(
            _ message: SignedMessage, _ headers: HTTPHeaders, _ body: Data?, compared: String? = nil
        ) throws(NetworkError) -> Verified {
            let inputs = headers[values: "Signature-Input"].joined(separator: ", ")
            let values = headers[values: "Signature"].joined(separator: ", ")
            guard let inputs = StructuredField.dictionary(inputs), let values = StructuredField.dictionary(values)
            else {
                throw Self.refusal("its field Signature-Input or Signature is malformed")
            }
            guard !inputs.keys.isEmpty else {
                throw Self.refusal("it has no field Signature-Input; does the other side sign?")
            }
            var reasons: [String] = []
            for label in inputs.keys {
                do {
                    guard let input = inputs[label], case .bytes(let signature) = values[label]?.value else {
                        throw SignatureComponent.Problem(reason: "the field Signature has no such member")
                    }
                    return try check(label, input, signature, message, headers, body, compared)
                } catch {
                    let reason = (error as? SignatureComponent.Problem)?.reason ?? "\(error)"
                    reasons.append("\(SignatureComponent.quoted(label)): \(reason)")
                }
            }
            throw Self.refusal(reasons.joined(separator: "; "))
        }

        private func check(
            _ label: String, _ input: StructuredField.Member, _ signature: [UInt8], _ message: SignedMessage,
            _ headers: HTTPHeaders, _ body: Data?, _ compared: String?
        ) throws(SignatureComponent.Problem) -> Verified {
            guard let items = input.items, let parameters = input.text else {
                throw .init(reason: "its components are no inner list")
            }
            var components: [SignatureComponent] = []
            for item in items { components.append(try SignatureComponent(item)) }
            let verified = Verified(label, components, input.parameters)
            let key = try key(of: verified, input.parameters)
            try checkTime(verified)
            for component in required where !components.contains(component) {
                throw .init(reason: "it does not cover \(component.text)")
            }
            let base = try message.signatureBase(components, parameters)
            guard key.verifies(signature, of: base) else {
                throw .init(reason: "the signature does not fit; the message was changed, or signed with another key")
            }
            if components.contains(where: { $0.name == "content-digest" && !$0.isOfRequest }) {
                try Self.checkDigest(headers, body, compared)
            }
            return verified
        }

        private func key(
            of verified: Verified, _ parameters: StructuredField.Parameters
        ) throws(SignatureComponent.Problem) -> Key {
            if let tag, verified.tag != tag { throw .init(reason: "its tag is not \(SignatureComponent.quoted(tag))") }
            guard let id = verified.keyID, let key = keys[id] else {
                throw .init(
                    reason: verified.keyID.map {
                        "its key \(SignatureComponent.quoted($0)) is not among the verifier's"
                    }
                        ?? "it names no key (keyid)")
            }
            // The algorithm is that of the key, whatever the message says (RFC 9421 §3.2).
            if let algorithm = parameters["alg"], algorithm != .string(key.algorithm) {
                throw .init(reason: "its algorithm is not \(key.algorithm), that of its key")
            }
            return key
        }

        private func checkTime(_ verified: Verified) throws(SignatureComponent.Problem) {
            let now = clock()
            guard let created = verified.created else {
                throw .init(reason: "it does not say when it was made (created)")
            }
            guard created <= now + Self.tolerance else {
                throw .init(reason: "it was made \(created - now) s in the future; look at the clocks")
            }
            guard .seconds(now) - .seconds(created) <= maxAge else {
                throw .init(reason: "it was made \(now - created) s ago, and \(maxAge) are allowed (maxAge)")
            }
            if let expires = verified.expires, expires <= now {
                throw .init(reason: "it expired \(now - expires) s ago")
            }
        }

        private static func checkDigest(
            _ headers: HTTPHeaders, _ body: Data?, _ compared: String?
        ) throws(SignatureComponent.Problem) {
            guard let body else {
                throw .init(
                    reason: "its body is read as a stream, so that Content-Digest cannot be checked; collect it")
            }
            let values = headers[values: "Content-Digest"]
            let digests = RequestOptions.Digests.digests(in: values)
            // The digest is that of the coded bytes (RFC 9530 §2), which the engine has compared before it decoded them.
            if !digests.isEmpty, values.joined(separator: ", ") == compared { return }
            // Each that is known has to fit, because the signature may cover any one of them.
            for (algorithm, digest) in digests {
                let found = try? MessageDigest.of(body, algorithm == .sha512 ? .sha512 : .sha256)
                guard let found, isEqualInConstantTime(found, digest) else {
                    let isCoded = headers.contains("Content-Encoding")
                    throw .init(
                        reason: "its body is not that of Content-Digest; it was changed"
                            + (isCoded ? ", or decoded without its digest being checked; see digests.checks" : ""))
                }
            }
            guard !digests.isEmpty else { throw .init(reason: "its Content-Digest has neither sha-256 nor sha-512") }
        }

        private static func refusal(_ reason: String) -> NetworkError {
            NetworkError(.integrity, message: "the signature of the message is refused: \(reason)")
        }
    }

    /// A signature that fits.
    public struct Verified: Hashable, Sendable {
        /// Its name in the fields.
        public let label: String
        /// What it covers, as in `"@query-param";name="page"`.
        public let components: [String]
        /// The identifier of its key.
        public let keyID: String?
        /// When it was made, in seconds since 1970.
        public let created: Int64?
        /// When it expires, in seconds since 1970.
        public let expires: Int64?
        /// The text by which a message that is sent again is found.
        public let nonce: String?
        /// The application that it is for.
        public let tag: String?

        init(_ label: String, _ components: [SignatureComponent], _ parameters: StructuredField.Parameters) {
            func text(_ key: String) -> String? {
                if case .string(let text) = parameters[key] { text } else { nil }
            }
            func seconds(_ key: String) -> Int64? {
                if case .integer(let seconds) = parameters[key] { seconds } else { nil }
            }
            self.label = label
            self.components = components.map(\.text)
            keyID = text("keyid")
            created = seconds("created")
            expires = seconds("expires")
            nonce = text("nonce")
            tag = text("tag")
        }
    }
}

extension MessageSignature.Verifier: Interceptor {
    /// Sends the request, and verifies the response to it.
    public func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let response = try await next(request)
        do throws(NetworkError) {
            try verify(response, to: request)
        } catch {
            throw NetworkError(error.kind, message: error.message, request: request, response: response)
        }
        return response
    }
}
