internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking

/// The limits of a queue, as arguments of ``LimitScript``.
struct LimitTerms: Hashable, Sendable {
    enum Rule: Hashable, Sendable {
        /// At most one start in each `period` (µs), and `burst` at once after a pause.
        case rate(period: Int64, burst: Int64)
        /// At most this many calls at once.
        case places(Int64)
    }

    private(set) var rules: [Rule] = []
    private(set) var keys: [String] = []

    /// - Parameter key: Makes the key of a limit's part.
    init(_ limits: [SharedLimit], host: String, key: (_ limit: String, _ part: String) -> String) {
        for limit in limits {
            func add(_ rule: Rule?, _ part: String) {
                guard let rule else { return }
                rules.append(rule)
                keys.append(key(limit.name, part))
            }
            add(limit.limits.rate.map(Self.rule), "rate")
            add(limit.limits.ratePerHost.map(Self.rule), "rate \(host)")
            add(limit.limits.maxConcurrentRequests.map { .places(Int64(max(1, $0))) }, "places")
            add(limit.limits.maxConcurrentRequestsPerHost.map { .places(Int64(max(1, $0))) }, "places \(host)")
        }
    }

    /// The keys of the limits with places.
    var placeKeys: [String] {
        zip(keys, rules).compactMap { key, rule in if case .places = rule { key } else { nil } }
    }

    /// The longest time after which it is worth asking for more.
    var longestPause: Duration {
        rules.reduce(LimitScript.pollInterval) { longest, rule in
            if case .rate(let period, _) = rule { max(longest, .microseconds(period)) } else { longest }
        }
    }

    private static func rule(_ rate: RequestLimits.RateLimit) -> Rule {
        // Rounded up, so that the rate is never above the limit. A day at most, so that nothing overflows.
        let period =
            rate.perSecond > 0 ? min((1_000_000 / rate.perSecond).rounded(.up), 86_400_000_000) : 86_400_000_000
        return .rate(period: max(1, Int64(period)), burst: Int64(min(max(1, rate.burst), 1_000_000)))
    }
}

/// The script for all limits: rates by the generic cell rate algorithm (GCRA) on the clock of Redis, and places by leases. A
/// start takes from all limits of a queue or from none.
///
/// - A rate is one number: the time (µs) at which the tokens taken so far will be refilled. Tokens of the near future are
///   granted too, each with the delay until it may be used, so that processes are served in the order in which they asked.
/// - Places are one hash: for each queue of each process how many it uses, until when its lease lasts, and until when it waits
///   for more. A queue states with every query how many it uses. The places of a crashed process are free when its lease ends. A
///   process that gives a place back while another one waits gets no new one, so that no process keeps all places.
///
/// A time that lies further ahead than the script ever writes one was written before the clock of Redis was set back, or by
/// somebody else. It counts as over; a process that still has places states them again within a third of a lease.
enum LimitScript {
    /// How long a process keeps its places without another query.
    static let lease = Duration.seconds(10)
    /// How long before its use a token may be granted.
    static let horizon = Duration.milliseconds(100)
    /// A queue that waits for places asks again after this time, in case the message about a free place is lost.
    static let pollInterval = Duration.milliseconds(250)

    static let script = RedisScript(
        "the limits",
        """
        local clock = redis.call('TIME')
        local now = clock[1] * 1000000 + clock[2]
        local me, channel = ARGV[1], ARGV[2]
        local used, want, returned = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
        local lease, horizon, poll = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
        -- A clock may be corrected by less than a tenth of a lease while places are held.
        local slack = lease / 10
        local function read(command, key)
            local value = redis.pcall(command, key)
            if type(value) ~= 'table' or not value.err then return value end
            -- A key of another type is not one of ours, and would stop the script for ever.
            redis.call('DEL', key)
            return command == 'GET' and false or {}
        end
        local function rule(i) return ARGV[6 + 3 * i], tonumber(ARGV[7 + 3 * i]), tonumber(ARGV[8 + 3 * i]) end
        local granted, isFull = want, 0
        local refilled, mine, waiters, free = {}, {}, {}, {}
        for i, key in ipairs(KEYS) do
            local kind, first, burst = rule(i)
            if kind == 'rate' then
                local at = tonumber(read('GET', key) or now) or now
                -- What is not a number is not equal to itself.
                if at ~= at then at = now end
                at = math.max(math.min(at, now + horizon + first * burst) - returned * first, now)
                refilled[i] = at
                granted = math.min(granted, math.floor((horizon + now + first * burst - at) / first))
            else
                local others, all = 0, read('HGETALL', key)
                mine[i], waiters[i] = 0, false
                for j = 1, #all, 2 do
                    local count, till, waits = string.match(all[j + 1], '^(%d+) (%d+) (%d+)$')
                    if all[j] == me then
                        mine[i] = tonumber(count) or 0
                    elseif not count or tonumber(till) <= now or tonumber(till) > now + lease + slack then
                        redis.call('HDEL', key, all[j])
                    else
                        others = others + tonumber(count)
                        local wait = tonumber(waits) - now
                        if wait > 0 and wait <= 2 * poll + slack then waiters[i] = true end
                    end
                end
                free[i] = math.max(first - others - used, 0)
                if waiters[i] and mine[i] > used then free[i] = 0 end
                if free[i] < want then isFull = 1 end
                granted = math.min(granted, free[i])
            end
        end
        granted = math.max(granted, 0)
        local answer = {0, 0, isFull}
        local nextTime = isFull == 1 and poll or 0
        for k = 1, granted do answer[3 + k] = 0 end
        for i, key in ipairs(KEYS) do
            local kind, first, burst = rule(i)
            if kind == 'rate' then
                local start = refilled[i] - first * burst - now
                for k = 1, granted do answer[3 + k] = math.max(answer[3 + k], math.ceil(start + k * first)) end
                if granted < want then
                    nextTime = math.max(nextTime, math.ceil(start + (granted + 1) * first - horizon))
                end
                local at = refilled[i] + granted * first
                if at > now then
                    redis.call('SET', key, string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000) + 1)
                elseif returned > 0 then
                    redis.call('DEL', key)
                end
            else
                local count, waits = used + granted, 0
                if free[i] < want then waits = now + 2 * poll end
                if count == 0 and waits == 0 then
                    redis.call('HDEL', key, me)
                else
                    redis.call('HSET', key, me, string.format('%.0f %.0f %.0f', count, now + lease, waits))
                    redis.call('PEXPIRE', key, math.ceil(lease / 500))
                end
                if waiters[i] and mine[i] > count then redis.call('PUBLISH', channel, key) end
            end
        end
        answer[1], answer[2] = string.format('%.0f', now), nextTime
        return answer
        """)

    /// - Parameters:
    ///   - queue: The name of the queue among those of all processes.
    ///   - channel: Where a free place is announced.
    static func arguments(
        _ demand: LimitQueueMachine.Demand, _ terms: LimitTerms, queue: String, channel: String
    ) -> [RedisArgument] {
        var arguments: [RedisArgument] = [.text(queue), .text(channel)]
        arguments += [demand.used, demand.want, demand.returned].map { .integer(Int64($0)) }
        arguments += [lease, horizon, pollInterval].map { .integer($0.microseconds) }
        for rule in terms.rules {
            switch rule {
            case .rate(let period, let burst): arguments += ["rate", .integer(period), .integer(burst)]
            case .places(let count): arguments += ["places", .integer(count), "0"]
            }
        }
        return arguments
    }

    /// How soon a queue may ask again for what was not granted, so that no reply makes it ask without a pause.
    static let shortestPause = Duration.milliseconds(1)

    /// Reads a reply: the time of the Redis in µs, and what it grants. `nil` for what the script never returns; times are
    /// held within the bounds that the script keeps, so that no reply makes a call wait longer than its limits do.
    static func answer(
        _ value: RedisValue, to demand: LimitQueueMachine.Demand, _ terms: LimitTerms
    ) -> (time: Int64, answer: LimitQueueMachine.Answer)? {
        guard let parts = value.array, (3...3 + demand.want).contains(parts.count) else { return nil }
        let numbers = parts.compactMap(\.integer)
        guard numbers.count == parts.count else { return nil }
        let delays = numbers[3...].map { min(max(.zero, .microseconds($0)), horizon) }
        let isShort = delays.count < demand.want
        let next = min(max(isShort ? shortestPause : .zero, .microseconds(numbers[1])), terms.longestPause)
        return (numbers[0], LimitQueueMachine.Answer(delays: delays, next: next, isFull: numbers[2] == 1))
    }
}

extension Duration {
    var microseconds: Int64 { components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000 }
}
