import Cryptography
import HTTPCore

/// What an upload in several requests does next, whatever its protocol. A value without I/O and clock.
///
/// The file is divided into lanes. A lane is an upload on the server that grows from its beginning, or a part that is stored
/// as a whole. The job performs a step, has a dialect read the response, and notes the answer here.
struct UploadPlan: Hashable, Sendable {
    enum Shape: String, Hashable, Sendable {
        /// One upload that grows.
        case sequence
        /// Several uploads that grow side by side and are joined at the end.
        case joined
        /// Parts of one upload, stored in any order and put together at the end.
        case parts
    }

    struct Lane: Hashable, Sendable {
        let range: Range<Int64>
        /// The upload on the server; `nil` before it was created, and for parts.
        var address: String?
        /// The bytes of the lane that the server has, as far as it has said.
        var stored: Int64 = 0
        /// Whether the server has said what it has since the last failure.
        var isKnown = false
        var isDone = false
        /// What identifies a stored part.
        var part: Part?
        var worker: Int?
    }

    /// What the server says of a stored part.
    struct Part: Hashable, Sendable {
        var tag: String
        var checksum: String?
        var size: Int64?
    }

    /// What the server says it can do.
    struct Facts: Hashable, Sendable {
        /// Whether it has said that it takes such uploads.
        var isKnown = false
        var canJoin = false
        var createsWithContent = false
        /// The function for the checksum of the content of a request; `nil` if it takes none.
        var checksum: MessageDigest.Algorithm?
        var wholeChecksum: MessageDigest.Algorithm?
        var maxSize: Int64?
        var maxPart: Int64?
        var minPart: Int64?
        /// Seconds since 1970.
        var expires: Int64?
    }

    enum Step: Hashable, Sendable {
        case probe
        /// Creates the upload of a lane, with its first bytes or none.
        case create(lane: Int, Range<Int64>)
        /// Creates the upload that parts belong to.
        case begin
        /// Asks which parts there are, from a number on.
        case list(after: Int)
        /// Asks how many bytes of a lane there are.
        case ask(lane: Int)
        case send(lane: Int, Range<Int64>)
        case complete
        /// Finds out whether an upload that is gone was completed.
        case verify

        var lane: Int? {
            switch self {
            case .create(let lane, _), .ask(let lane), .send(let lane, _): lane
            case .probe, .begin, .list, .complete, .verify: nil
            }
        }
    }

    enum Answer: Hashable, Sendable {
        case probed
        /// The upload was created, and has so many bytes; `nil` if it has to be asked.
        case created(String, stored: Int64?)
        /// The lane has so many bytes.
        case offset(Int64)
        /// The parts that there are by number, and the number after which the list goes on; `nil` at its end.
        case listed([Int: Part], next: Int?)
        case stored(Part)
        /// The upload has all bytes, but its result is not known.
        case whole
        /// The response is the result of the upload.
        case finished
        /// The server does not know the upload.
        case gone
        /// The server refused for a reason that may pass, or has other bytes than expected.
        case again(Again)
        /// The content of the request is larger than the server takes: at most so many bytes, if it says so.
        case tooLarge(Int64?)
        /// The response is the final failure of the upload.
        case refused
    }

    enum Again: Hashable, Sendable {
        /// The server has another offset than expected, or an earlier request still writes.
        case conflict
        /// The checksum that the server found is another one.
        case corrupt
        /// A status of the retry policy.
        case busy
    }

    /// What the job does after an answer.
    enum Outcome: Hashable, Sendable {
        case proceed
        case again(Again)
        case startOver
        case finished
        case refused
    }

    let total: Int64
    let style: ResumableUpload.Style
    private let parallel: Int
    private let wantedPart: Int64?
    /// The largest content that the server took after it had refused a larger one.
    private var takenPart: Int64?
    var shape = Shape.sequence
    var lanes: [Lane] = []
    /// The name of the upload that parts belong to.
    var upload: String?
    var facts = Facts()
    private var hasProbed: Bool
    private var listsAfter: Int? = 0
    /// Whether the request that puts the parts together may have reached the server.
    var mayBeComplete = false
    private var verifies = false
    private(set) var isFinished = false
    private(set) var restarts = 0
    /// The interop version of the draft.
    var version = UploadPlan.versions.upperBound

    /// The interop versions of the draft: 3 is of draft -01, 4 of -02, 5 of -03, 6 of -04, 7 of -06, 8 of -09 to -11.
    static let versions = 3...8
    static let maxRestarts = 3
    static let maxParts: Int64 = 10_000

    init(total: Int64, _ upload: ResumableUpload) {
        self.total = total
        style = upload.style
        parallel = upload.style == .standard ? 1 : upload.parallel
        wantedPart = upload.partSize
        hasProbed = upload.style == .s3
        layOut()
    }

    /// The largest content of a request.
    var partSize: Int64 {
        if shape == .parts, let first = lanes.first { return Int64(first.range.count) }
        var size = wantedPart ?? min(64 << 20, max(style == .s3 ? 8 << 20 : 4 << 20, total / 100))
        if let limit = facts.minPart { size = max(size, limit) }
        for limit in [facts.maxPart, takenPart] { size = min(size, limit ?? .max) }
        return max(1, size)
    }

    /// The number of parts of the wanted size, which S3 limits.
    var partCount: Int64 { max(1, (total + partSize - 1) / partSize) }

    var workerCount: Int { shape == .sequence ? 1 : min(parallel, max(1, lanes.count { !$0.isDone })) }

    /// The bytes that the server has.
    var stored: Int64 { isFinished ? total : lanes.reduce(0) { $0 + ($1.isDone ? Int64($1.range.count) : $1.stored) } }

    /// Whether the server has an upload that could be continued or has to be removed.
    var hasUpload: Bool { upload != nil || lanes.contains { $0.address != nil } }

    var hasRestartedTooOften: Bool { restarts > Self.maxRestarts }

    private mutating func layOut() {
        switch style {
        case .tus where parallel > 1 && facts.canJoin && total >= Int64(parallel):
            shape = .joined
            let count = Int64(parallel)
            lanes = (0..<count).map { Lane(range: total * $0 / count..<total * ($0 + 1) / count) }
        case .tus, .standard:
            shape = .sequence
            lanes = [Lane(range: 0..<total)]
        case .s3:
            shape = .parts
            var size = wantedPart ?? partSize
            if wantedPart == nil { size = max(size, (total / Self.maxParts / (1 << 20) + 1) << 20) }
            lay(partsOf: size)
        }
    }

    mutating func lay(partsOf size: Int64) {
        // More than the limit is refused before anything is sent.
        let count = min(Self.maxParts + 1, max(1, (total + size - 1) / size))
        lanes = (0..<count).map { Lane(range: $0 * size..<min(total, ($0 + 1) * size)) }
    }

    // MARK: Steps

    /// The next step that has to be made before, or after, all that workers do; `nil` while they send.
    var serialStep: Step? {
        if verifies { return .verify }
        if !hasProbed { return .probe }
        if shape == .parts {
            if upload == nil { return .begin }
            if let listsAfter { return .list(after: listsAfter) }
        }
        return !isFinished && lanes.allSatisfy(\.isDone) ? .complete : nil
    }

    /// The next step of a worker; `nil` if nothing is left for it.
    mutating func step(of worker: Int) -> Step? {
        guard !isFinished,
            let index = lanes.firstIndex(where: { $0.worker == worker && !$0.isDone })
                ?? lanes.firstIndex(where: { $0.worker == nil && !$0.isDone })
        else { return nil }
        lanes[index].worker = worker
        let lane = lanes[index]
        if shape == .parts { return .send(lane: index, lane.range) }
        guard lane.address != nil else { return .create(lane: index, firstContent(of: lane.range)) }
        guard lane.isKnown else { return .ask(lane: index) }
        let start = lane.range.lowerBound + lane.stored
        return .send(lane: index, start..<min(start + partSize, lane.range.upperBound))
    }

    /// The bytes that the creation of a lane carries. A server that has not said that it takes such uploads gets an ordinary
    /// request with all of them.
    private func firstContent(of range: Range<Int64>) -> Range<Int64> {
        let none = range.lowerBound..<range.lowerBound
        switch style {
        case .tus: return facts.createsWithContent && Int64(range.count) <= partSize ? range : none
        case .standard:
            return !facts.isKnown || Int64(range.count) <= min(partSize, facts.maxPart ?? .max) ? range : none
        case .s3: return none
        }
    }

    /// Releases the lanes of all workers, and asks what the server has of those that were interrupted.
    mutating func releaseAll() {
        for index in lanes.indices where !lanes[index].isDone {
            lanes[index].worker = nil
            lanes[index].isKnown = false
        }
    }

    // MARK: Answers

    mutating func note(_ answer: Answer, to step: Step) -> Outcome {
        switch answer {
        case .probed:
            hasProbed = true
            if !hasUpload { layOut() }
        case .created(let address, let stored):
            guard let lane = step.lane else {
                upload = address
                listsAfter = nil
                break
            }
            lanes[lane].address = address
            lanes[lane].isKnown = stored != nil
            return stored.map { reach($0, in: lane, after: step) } ?? .proceed
        case .offset(let offset):
            guard let lane = step.lane else { return .refused }
            return reach(offset, in: lane, after: step)
        case .listed(let parts, let next):
            for (number, part) in parts where lanes.indices.contains(number - 1) {
                guard part.size == nil || part.size == Int64(lanes[number - 1].range.count) else { continue }
                lanes[number - 1].part = part
                lanes[number - 1].isDone = true
            }
            listsAfter = next
        case .stored(let part):
            guard let lane = step.lane else { return .refused }
            lanes[lane].part = part
            lanes[lane].isDone = true
        case .whole:
            for index in lanes.indices { lanes[index].isDone = true }
        case .finished:
            isFinished = true
            return .finished
        case .gone:
            // The answer to the request that put the parts together may have been lost.
            if mayBeComplete, shape == .parts, step != .verify {
                verifies = true
                return .proceed
            }
            return .startOver
        case .again(let reason):
            fail(step)
            return .again(reason)
        case .tooLarge(let limit):
            if case .create(_, let range) = step {
                // With the limit known, the upload is created without content.
                return facts.isKnown && Int64(range.count) > (facts.maxPart ?? .max) ? .proceed : .refused
            }
            guard case .send(_, let range) = step, range.count > 1, shape != .parts else { return .refused }
            takenPart = min(limit.map { max(1, $0) } ?? .max, Int64(range.count) / 2)
            fail(step)
        case .refused: return .refused
        }
        return .proceed
    }

    /// Notes what an interim response says.
    ///
    /// - Returns: whether the address of the upload is new.
    mutating func noteInterim(_ address: String?, _ facts: Facts, to step: Step) -> Bool {
        take(facts)
        guard let address, let lane = step.lane, lanes[lane].address == nil else { return false }
        lanes[lane].address = address
        return true
    }

    /// A request failed without an answer, or with one that may pass: the server is asked what it has.
    mutating func fail(_ step: Step) {
        switch step {
        case .create(let lane, _):
            lanes[lane].isKnown = false
            // A server sends no 104 to another version than its own, and the next attempt uses the one before.
            if style == .standard, lanes[lane].address == nil {
                version = max(Self.versions.lowerBound, version - 1)
            }
        case .send(let lane, _), .ask(let lane): lanes[lane].isKnown = false
        case .complete:
            if shape == .parts, !mayBeComplete { listsAfter = 0 }
        case .probe, .begin, .list, .verify: break
        }
    }

    /// The request that completes the upload is about to be sent.
    mutating func noteCompletion() { mayBeComplete = true }

    /// The server says that parts are missing or are not those that were named.
    mutating func listAgain() {
        mayBeComplete = false
        listsAfter = 0
        for index in lanes.indices { (lanes[index].isDone, lanes[index].part, lanes[index].worker) = (false, nil, nil) }
    }

    /// Forgets the upload on the server.
    mutating func startOver() {
        restarts += 1
        upload = nil
        listsAfter = 0
        (mayBeComplete, verifies, isFinished) = (false, false, false)
        facts.expires = nil
        layOut()
    }

    mutating func take(_ new: Facts) {
        facts.isKnown = facts.isKnown || new.isKnown
        facts.canJoin = facts.canJoin || new.canJoin
        facts.createsWithContent = facts.createsWithContent || new.createsWithContent
        facts.checksum = new.checksum ?? facts.checksum
        facts.wholeChecksum = new.wholeChecksum ?? facts.wholeChecksum
        facts.maxSize = new.maxSize ?? facts.maxSize
        facts.maxPart = new.maxPart ?? facts.maxPart
        facts.minPart = new.minPart ?? facts.minPart
        facts.expires = new.expires ?? facts.expires
    }

    private mutating func reach(_ offset: Int64, in index: Int, after step: Step) -> Outcome {
        let count = Int64(lanes[index].range.count)
        // An offset behind the end belongs to other content.
        guard (0...count).contains(offset) else { return .startOver }
        let before = lanes[index].stored
        lanes[index].stored = offset
        lanes[index].isKnown = true
        if case .send = step, offset <= before {
            fail(step)
            return .again(.conflict)
        }
        guard offset == count, style == .tus else { return .proceed }
        lanes[index].isDone = true
        if shape == .sequence { isFinished = true }
        return isFinished ? .finished : .proceed
    }
}
