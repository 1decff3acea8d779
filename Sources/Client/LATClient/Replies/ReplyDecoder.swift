import FoundationEssentials
import HTTPCore

struct ReplyDecoder: Sendable {
    var envelope: Envelope.Rule?
    var errors: Envelope.ErrorRule?
    var judge: SuccessJudge?

    /// - Throws: ``NetworkError`` of kind `httpStatus`, `business` or `decoding`.
    func reply<Model: Decodable & Sendable>(
        _ type: Model.Type, from response: HTTPResponse, to request: HTTPRequest
    ) throws -> Reply<Model> {
        guard StatusRule.isSuccess(response, to: request) else {
            throw businessFailure(response, request) ?? StatusRule.failure(response, to: request)
        }
        guard let rule = envelope, !response.hasNoContent else {
            if let judge { try Self.ask(judge, about: response, to: request) }
            return Reply(model: try model(type, from: response), response: response, envelope: nil)
        }
        let document = try response.document()
        let (envelope, data) = rule.envelope(in: document)
        guard rule.isSuccess(envelope), judge.map({ $0(response, document.value) }) ?? true else {
            throw Self.failure(envelope, rule, response, request)
        }
        let model = try model(type, from: data, at: rule.data, response)
        return Reply(model: model, response: response, envelope: envelope)
    }

    /// The failure in the content of a response that is not a success, such as a 400 with a code and a message; `nil` when
    /// there is no code of failure where the rows say.
    private func businessFailure(_ response: HTTPResponse, _ request: HTTPRequest) -> NetworkError? {
        guard envelope != nil || errors != nil, !response.hasNoContent, let document = try? response.document() else {
            return nil
        }
        if let failure = errors?.failure(in: document, response.problem.map { ($0.type, "\($0)") }) {
            return NetworkError(
                .business(code: failure.code), message: Self.words(failure, request), request: request,
                response: response, underlying: failure)
        }
        guard let rule = envelope else { return nil }
        let (envelope, _) = rule.envelope(in: document)
        guard envelope.codeText != nil, !rule.isSuccess(envelope) else { return nil }
        return Self.failure(envelope, rule, response, request)
    }

    /// Whether the envelope and the judge accept a response, without decoding it.
    func accepts(_ response: HTTPResponse) -> Bool {
        guard StatusRule.isStandardSuccess(response) else { return false }
        let hasEnvelope = envelope != nil && !response.hasNoContent
        guard hasEnvelope || judge != nil else { return true }
        guard !response.hasNoContent, let document = try? response.document() else {
            return !hasEnvelope && judge?(response, .null) ?? true
        }
        if hasEnvelope, let rule = envelope, !rule.isSuccess(rule.envelope(in: document).envelope) { return false }
        return judge.map { $0(response, document.value) } ?? true
    }

    /// - Throws: ``NetworkError/Kind/business(code:)`` when the judge rejects the response.
    static func ask(_ judge: SuccessJudge, about response: HTTPResponse, to request: HTTPRequest) throws {
        let document = response.hasNoContent ? JSONValue.null : (try? response.json()) ?? .null
        guard !judge(response, document) else { return }
        let envelope = Envelope(code: nil, message: nil, data: document)
        throw Self.failure(envelope, nil, response, request)
    }

    /// Decodes a response without an envelope: the body is the model.
    private func model<Model: Decodable>(_ type: Model.Type, from response: HTTPResponse) throws -> Model {
        if type == Data.self, let data = response.data as? Model { return data }
        if type == String.self, response.status == 200, let text = response.text as? Model, response.hasNoContent {
            return text
        }
        if response.hasNoContent { return try response.decode(type) }
        if type == String?.self, (try? response.document())?.isNull == true,
            let nothing = HTTPResponse.nothing(type)
        {
            return nothing
        }
        // The content of a body that is a JSON string, otherwise the whole body as text.
        if type == String?.self || type == String.self,
            let text = ((try? response.document())?.string ?? response.text) as? Model
        {
            return text
        }
        if type == Data?.self, let data = response.data as? Model { return data }
        return try response.decode(type)
    }

    private func model<Model: Decodable>(
        _ type: Model.Type, from data: JSONDocument?, at path: String?, _ response: HTTPResponse
    ) throws -> Model {
        if data?.isNull ?? true, let nothing = HTTPResponse.nothing(type) { return nothing }
        guard let data else {
            throw NetworkError(
                .decoding(path: path ?? ""),
                message:
                    "the envelope has no \"\(path ?? "data")\" to decode \(type) from; make the model optional if it may "
                    + "be missing", response: response)
        }
        do {
            return try data.decode(type, by: response.coding)
        } catch {
            let place = DecodingPath(error)
            let full = [path ?? "", place.path].filter { !$0.isEmpty }.joined(separator: ".")
                .replacing(".[", with: "[")
            throw NetworkError(
                .decoding(path: full), message: "the response is not \(type) at \(full): \(place.reason)",
                response: response, underlying: error)
        }
    }

    /// The failure in one line of limited length.
    private static func words(_ failure: BusinessFailure, _ request: HTTPRequest) -> String {
        let text = URLText.visible(String("\(failure)".prefix(1_024)))
        return "the server reported a failure, \(Redactor.scrubbed(text, of: request))"
    }

    private static func failure(
        _ envelope: Envelope, _ rule: Envelope.Rule?, _ response: HTTPResponse, _ request: HTTPRequest
    ) -> NetworkError {
        let code = envelope.codeText ?? ""
        let failure = BusinessFailure(
            code: code, message: rule?.messages[code] ?? envelope.message, envelope: envelope)
        let message =
            if let rule, envelope.codeText == nil {
                "the response has no code at \"\(rule.code)\"; check the domain's envelope in the table"
            } else if rule == nil {
                "the success judge rejected the response"
            } else {
                words(failure, request)
            }
        return NetworkError(
            .business(code: code), message: message, request: request, response: response, underlying: failure)
    }
}

/// Accepts or rejects a response whose status is a success (2xx, 304, or what the request accepts), from the response and its
/// body as JSON (`null` when it is not JSON).
public typealias SuccessJudge = @Sendable (_ response: HTTPResponse, _ document: JSONValue) -> Bool

extension NetworkError {
    /// The failure that the server reported, for an error of kind ``Kind/business(code:)``; otherwise `nil`.
    public var businessFailure: BusinessFailure? { underlying as? BusinessFailure }

    /// The failure as a case of the app: that with the raw value ``BusinessFailure/name``, or ``BusinessFailure/code`` if the
    /// table names none. `nil` when there is no such case, and for other errors.
    ///
    /// ```swift
    /// enum ShopFailure: String { case outOfCredit, soldOut }
    /// if error.failure(as: ShopFailure.self) == .outOfCredit { print("top up first") }
    /// ```
    public func failure<Failure: RawRepresentable<String>>(as type: Failure.Type = Failure.self) -> Failure? {
        businessFailure.flatMap { Failure(rawValue: $0.name ?? $0.code) }
    }
}
