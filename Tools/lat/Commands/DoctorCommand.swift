import FoundationEssentials
import LATNetworking

/// `lat doctor [URL]`: checks each step of a connection to a server, and says where it fails and what to do.
struct DoctorCommand: Command {
    /// The URL; `nil` to check only this machine.
    let url: String?
    let timeout: Duration
    let format: OutputFormat
    let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        url = arguments.operands.first
        try UsageError.refuse(arguments.operands, after: 1, "lat doctor checks one URL")
        if let url {
            let shown = SafeText.line(url)
            guard !url.isEmpty else {
                throw UsageError("the URL is empty; write lat doctor https://example.org/, or lat doctor alone")
            }
            guard URLParts(url).isAbsolute else {
                let whole = try url.contains(":") ? URLArgument.checked(url) : "https://\(url)/"
                throw UsageError("\"\(shown)\" is not a whole URL; write lat doctor \(SafeText.line(whole))")
            }
            _ = try URLArgument.checked(url)
        }
        timeout = try DurationArgument.parse(arguments, of: Self.timeout) ?? .seconds(5)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        var configuration = CentralRequestManager.Configuration()
        configuration.timeout = timeout
        configuration.connectTimeout = timeout
        configuration.setProxy(arguments)
        if let authority = arguments.value(Option.authority) {
            try RequestContent.checkReadable(authority, "\(Option.authority.name) ")
            configuration.tls.caFile = authority
        }
        let examination: DoctorExamination
        do {
            examination = try DoctorExamination(url: url, timeout: timeout, configuration: configuration)
        } catch let error as NetworkError where error.kind == .invalidRequest {
            throw UsageError(ErrorWords().message(of: error))
        }
        // Lines are wrapped only on a terminal, because programs search for whole lines.
        let width = console.outTerminal.isTerminal ? console.textWidth : .max
        let report = DoctorReport(style: console.outStyle, width: width)
        var steps: [DoctorStep] = []
        for await step in examination.steps {
            steps.append(step)
            if format == .text { for line in report.lines(of: step) { try console.print(line) } }
        }
        try Task.checkCancellation()
        if format == .json {
            try console.print(DoctorReport.json(url, steps))
        } else {
            try console.print(report.verdict(steps))
        }
        return DoctorReport.exitCode(steps)
    }
}

// MARK: Help

extension DoctorCommand {
    static let name = "doctor"
    static let summary = "Checks a connection step by step, and says what to do."
    static let usage = "[URL] [options]"

    static let timeout = Option(
        "--timeout", value: "TIME", help: "The time limit of each step: 500ms, 1s. Default: 5s.")

    static let options = [timeout, RequestCommand.proxy, Option.authority, OutputFormat.option]

    static let details = """
        The steps are name, TCP, TLS and HTTP. Without a URL only this machine is
        checked: its libcurl, its network, and the proxies that are set.

        Examples
          lat doctor
          lat doctor http://127.0.0.1:8080/get
          lat doctor https://example.org/ --ca authority.pem --timeout 2s

        Exit codes: 0 all is well, 1 the server answers with a failure, 2 the command
        line is invalid, 3 the server cannot be reached, 130 interrupted.
        """
}

/// One check and its result.
struct DoctorStep: Hashable, Sendable {
    enum Outcome: String, Hashable, Sendable {
        case good
        /// It passed, with a note.
        case warning
        /// The server answered with a failure.
        case refusal
        /// It failed, and later steps cannot be checked.
        case failure
    }

    /// `name`, `tcp`, `tls`, `http` and so on.
    var name: String
    var outcome = Outcome.good
    var finding: String
    /// How long it took; `nil` when no time was measured.
    var duration: Duration?
    var details: [String] = []
    /// The next step; `nil` when there is nothing to do.
    var advice: String?
}

/// Shows the steps of an examination.
struct DoctorReport {
    let style: Style
    /// The width to which lines are wrapped between words.
    let width: Int

    func lines(of step: DoctorStep) -> [String] {
        let sign =
            switch step.outcome {
            case .good: style.green(style.sign("✓", "ok"))
            case .warning: style.magenta("!")
            case .refusal, .failure: style.red(style.sign("✗", "x"))
            }
        let time = step.duration.map { style.dim("  " + Quantity.duration($0)) } ?? ""
        let margin = String(repeating: " ", count: 12)
        let findings = SafeText.line(step.finding).fitted(to: width - 22)
        var lines = ["\(sign) \(style.bold(step.name.padded(toEnd: 9))) \(findings[0])"]
        lines += findings.dropFirst().map { margin + $0 }
        lines[lines.count - 1] += time
        for detail in step.details {
            lines += SafeText.line(detail).fitted(to: width - 12).map { style.dim(margin + $0) }
        }
        if let advice = step.advice {
            let arrow = style.bold(style.sign("→", "->")) + " "
            let rows = SafeText.line(advice).fitted(to: width - 14)
            lines += rows.enumerated().map { margin + ($0 == 0 ? arrow : "  ") + $1 }
        }
        return lines
    }

    /// The summary in one line.
    func verdict(_ steps: [DoctorStep]) -> String {
        if let failed = steps.first(where: { $0.outcome == .failure }) {
            return style.red("It fails at \(failed.name).")
        }
        if let refused = steps.first(where: { $0.outcome == .refusal }) {
            return style.red("The server answers with a failure: \(SafeText.line(refused.finding)).")
        }
        let warnings = steps.count { $0.outcome == .warning }
        if warnings > 0 {
            return style.bold("It works, with \(warnings == 1 ? "one warning" : "\(warnings) warnings").")
        }
        return style.bold("All is well.")
    }

    static func exitCode(_ steps: [DoctorStep]) -> ExitCode {
        if steps.contains(where: { $0.outcome == .failure }) { return .network }
        return steps.contains { $0.outcome == .refusal } ? .failure : .success
    }

    /// One object. Durations are in milliseconds, and unknown values are null.
    static func json(_ url: String?, _ steps: [DoctorStep]) -> JSONValue {
        [
            "url": .text(url.map { Secrets.standard.shown(url: $0) }),
            "healthy": .bool(exitCode(steps) == .success),
            "steps": .array(
                steps.map { step in
                    [
                        "name": .string(step.name), "outcome": .string(step.outcome.rawValue),
                        "finding": .string(step.finding),
                        "duration": .milliseconds(step.duration),
                        "details": .array(step.details.map { .string($0) }),
                        "advice": .text(step.advice),
                    ]
                }),
        ]
    }
}

/// Advice on certificates.
enum CertificateAdvice {
    /// A certificate that expires sooner than this gets a warning.
    static let soon: TimeInterval = 14 * 86_400

    static func facts(of certificate: CertificateInfo) -> [String] {
        var facts = ["for \(certificate.subject)", "signed by \(certificate.issuer)"]
        facts.append("valid from \(certificate.validFrom) until \(certificate.validUntil)")
        if !certificate.names.isEmpty {
            let names = certificate.names.prefix(8).joined(separator: ", ")
            facts.append("names: \(names)" + (certificate.names.count > 8 ? ", …" : ""))
        }
        return facts
    }

    /// The advice; `nil` when the certificate stays valid for longer than ``soon``, or its end date cannot be parsed.
    static func ofExpiry(_ certificate: CertificateInfo, now: Date) -> String? {
        guard let end = date(certificate.validUntil) else { return nil }
        let left = end.timeIntervalSince(now)
        guard left < soon else { return nil }
        return "the certificate expires in \(Quantity.duration(.seconds(max(0, left)))); have it renewed"
    }

    /// Parses a date as OpenSSL writes it: `Nov 21 04:30:38 2026 GMT`. This is asctime's format with a zone at the end
    /// and no weekday.
    static func date(_ text: String) -> Date? {
        text.hasSuffix(" GMT") ? HTTPDate.parse("Sun \(text.dropLast(4))") : nil
    }

    private static let isItTLS = "does this port use TLS? Try http:// in place of https://"

    static func next(after error: NetworkError, _ certificate: CertificateInfo?, host: String) -> String {
        guard case .tls(let failure) = error.kind else {
            return "the connection opens but the handshake does not end; does this port use TLS?"
        }
        // OpenSSL's message for a reply that is not TLS.
        if error.message.contains("wrong version number") { return Self.isItTLS }
        switch failure {
        case .expired: return "renew the certificate on the server; if it has not expired, check this machine's clock"
        case .notYetValid: return "this machine's clock is behind, or the certificate's start date is in the future"
        case .wrongHost:
            let names = certificate.map { $0.names.isEmpty ? $0.subject : $0.names.joined(separator: ", ") } ?? "others"
            return "the certificate is for \(names), not for \(host); use one of these names, or another certificate"
        case .selfSigned, .untrusted:
            return "name the authority that signed it with --ca FILE (tls.caFile), or have the server send its chain"
        case .revoked: return "the authority has revoked the certificate; the server needs a new one"
        case .certificateStatus:
            return "the server does not prove that its certificate is not revoked; have it staple OCSP responses"
        case .pinMismatch: return "the key is not a pinned one; pin the new one if the change is intended"
        case .clientCertificate: return "the server requires a client certificate, or refuses the one it got"
        case .protocolVersion: return "both sides share no TLS version or cipher; the server needs TLS 1.2 or newer"
        case .handshake: return Self.isItTLS
        }
    }
}
