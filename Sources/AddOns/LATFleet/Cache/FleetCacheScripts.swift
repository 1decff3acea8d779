/// The scripts of the cache tier. Redis runs each atomically.
///
/// The head of an entry is a list of words, separated by spaces:
///
/// 1. the format
/// 2. the version, in two words
/// 3. start and end of the fetch, in microseconds of Redis' clock, with a hyphen between
/// 4. the time of the origin, in milliseconds
/// 5. the end of the entry's life, in milliseconds of Redis' clock
/// 6. the ID of the body, the number of its chunks, and its size in bytes
/// 7. the epoch and the number of removals at the time of the commit, and the mark at that time or at the last update
/// 8. for each tag, URL, server, domain and partition, the digest of its name and its generation
///
/// An entry is valid only while each of its generations still has the value in the head. A generation that was evicted gets
/// another value.
/// Only the head names the generations of an entry, so their keys are not in the `KEYS` of the look-up.
///
/// A removal of any generation also removes the mark, and the next commit makes a new one. So no generation of an entry
/// with the current mark was removed, and the entry is found without a script.
enum FleetCacheScripts {
    private static let common = """
        local function words(head)
          local f = {}
          for w in string.gmatch(head, '%S+') do f[#f + 1] = w end
          return f
        end
        local function alive(head, now, epoch, prefix)
          local f = words(head)
          if f[1] ~= '1' or #f < 12 or #f % 2 == 1 or f[10] ~= epoch or tonumber(f[6]) <= now then return nil end
          if #f > 12 then
            local keys = {}
            for i = 13, #f, 2 do keys[#keys + 1] = prefix .. f[i] end
            local values = redis.call('MGET', unpack(keys))
            for i = 1, #keys do if values[i] ~= f[12 + 2 * i] then return nil end end
          end
          return f
        end
        local function living(head, now, epoch, prefix)
          if not head or not epoch then return nil end
          local ok, f = pcall(alive, head, now, epoch, prefix)
          return ok and f or nil
        end
        local function clock()
          local t = redis.call('TIME')
          return t[1] * 1000000 + t[2]
        end
        local function rules(key)
          local r = redis.pcall('HMGET', key, 'e', 'n', 'g', 'f')
          if r.err or not r[1] or not tonumber(r[2]) then return nil, 0 end
          return r[1], r[2], r[3], r[4]
        end
        local function field(key, name)
          local value = redis.pcall('HGET', key, name)
          return type(value) == 'string' and value or nil
        end
        local function beneath(began, floor, us)
          floor = tonumber(floor or '')
          return floor and us - floor < 600000000 and began < floor
        end
        local function free(key, head)
          local ok, f = pcall(words, head or '')
          local count = ok and tonumber(f[8]) or 0
          for i = 0, math.min(count, 4096) - 1 do redis.call('PEXPIRE', key .. ':' .. f[7] .. ':' .. i, 60000) end
        end
        local function drop(key, v)
          free(key, field(key, 'h' .. v))
          return redis.call('HDEL', key, 'h' .. v, 'm' .. v, 'b' .. v, 't' .. v)
        end
        local function generations(first, prefix, fresh, ttl)
          local out = ''
          for i = first, #KEYS do
            local g = redis.pcall('GET', KEYS[i])
            if type(g) ~= 'string' or not string.find(g, '^%w+$') then
              g = fresh
              redis.call('SET', KEYS[i], g, 'PX', ttl)
            else
              redis.call('PEXPIRE', KEYS[i], ttl)
            end
            out = out .. ' ' .. string.sub(KEYS[i], #prefix + 1) .. ' ' .. g
          end
          return out
        end
        local function run()
          local info = redis.pcall('INFO', 'server')
          return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '0'
        end
        local function keep(key, ttl, longest)
          local left = redis.call('PTTL', key)
          if left < ttl or left > tonumber(longest) then redis.call('PEXPIRE', key, ttl) end
        end
        local function tell(channel, message) redis.pcall('PUBLISH', channel, message) end

        """

    /// Removes everything if the server was restarted since the last check, because it may have lost the newest changes.
    /// KEYS: rules. ARGV: random number, life of generations in ms. Returns 1 if it removed everything, else 0.
    static let check = RedisScript(
        "the cache's check for a restart",
        common + """
            local id = run()
            if redis.pcall('HGET', KEYS[1], 'r') == id then return 0 end
            redis.call('UNLINK', KEYS[1])
            redis.call('HSET', KEYS[1], 'e', string.format('%.0f', clock()) .. ARGV[1], 'n', '0', 'r', id,
              'f', string.format('%.0f', clock()))
            redis.call('PEXPIRE', KEYS[1], ARGV[2])
            return 1
            """)

    /// KEYS: entry, rules. ARGV: prefix of generations. Returns the time, the number of removals and, for each variant, its
    /// name and fields.
    static let lookUp = RedisScript(
        "the cache's look-up",
        common + """
            local all = redis.pcall('HGETALL', KEYS[1])
            if all.err or #all == 0 then return { clock() } end
            local epoch, count = rules(KEYS[2])
            if not epoch then return { clock() } end
            local us = clock()
            local now = math.floor(us / 1000)
            local at = {}
            for i = 1, #all, 2 do at[all[i]] = all[i + 1] end
            local out = { us, count }
            for name, head in pairs(at) do
              if string.sub(name, 1, 1) == 'h' and living(head, now, epoch, ARGV[1]) then
                local v = string.sub(name, 2)
                for _, value in ipairs({ v, head, at['m' .. v] or '', at['b' .. v] or false, at['t' .. v] or '' }) do
                  out[#out + 1] = value
                end
              end
            end
            return out
            """)

    /// KEYS: entry, rules, lease, generations. ARGV: variant, second half of the version, lease, time of the origin, life, ID,
    /// chunks, bytes, record, whether a body is inline, body, what it may replace, channel, message, life of generations, their
    /// prefix, the earliest start and the latest end of the fetch (0 if not known). Returns 1, the version and the number of
    /// variants when it was stored; 0 when a newer one is there or the writer may not replace it; -1 when only the writing
    /// process may use it.
    ///
    /// A response is newer than another one if its fetch began after the other's had ended. Of two overlapping fetches either
    /// may have the newer response: the one that was stored first stays. A response whose fetch began before a newer one was
    /// lost, or before the server was restarted, may be older than what some process has seen, so it is refused for ten
    /// minutes. A process knows Redis' clock only to within a round trip; the number of a lease is the exact time from which
    /// the fetch could begin.
    static let commit = RedisScript(
        "the cache's commit",
        common + """
            local key, v = KEYS[1], ARGV[1]
            local lease, date, ttl, prefix = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[16]
            local us = clock()
            local now = math.floor(us / 1000)
            local began, ended = tonumber(ARGV[17]), tonumber(ARGV[18])
            if began > us or began < us - 600000000 then began, ended = 0, 0 end
            if ended == 0 or ended > us then ended = us end
            local kind = redis.call('TYPE', key).ok
            if kind ~= 'hash' and kind ~= 'none' then redis.call('UNLINK', key) end
            local epoch, count, mark, restart = rules(KEYS[2])
            local head = field(key, 'h' .. v)
            local f = living(head, now, epoch, prefix)
            local function refused()
              for i = 0, tonumber(ARGV[7]) - 1 do redis.call('UNLINK', key .. ':' .. ARGV[6] .. ':' .. i) end
              return { 0 }
            end
            if lease > 0 then
              local holder = redis.pcall('GET', KEYS[3])
              if type(holder) == 'string' then
                local number = tonumber(string.match(holder, '^(%d+) ') or '')
                if number and number > lease then return refused() end
                if holder == 'pass' then redis.call('UNLINK', KEYS[3]) end
              end
            end
            if beneath(began, field(key, 'f'), us) or began > 0 and beneath(began, restart, us) then return { -1 } end
            if f and ARGV[12] == '-' then return refused() end
            -- Some process may have seen the other one, even if it has expired or was removed.
            local known, other = pcall(words, f and '' or head or '')
            other = f or known and other or {}
            local version = tonumber(other[2]) or 0
            if other[1] == '1' and ARGV[12] ~= other[2] .. ' ' .. other[3] then
              local first, last = string.match(other[4] or '', '^(%d+)%-(%d+)$')
              if began > 0 and first and tonumber(first) > 0 then
                if ended <= tonumber(first) then return refused() end
                if began < tonumber(last) then return { -1 } end
              elseif f and (ARGV[12] ~= '*' or us - version < 60000000 and date > 0 and date < tonumber(f[5])) then
                return refused()
              end
            end
            -- Beyond 2^53 numbers are not exact, and no version is: the next one could not be read.
            if us <= version and version < 9007199254740991 then us = version + 1 end
            version = string.format('%.0f', us)
            local fresh = version .. ARGV[2]
            -- The first change needs memory: a server that has none refuses it before anything else is changed.
            mark = epoch and mark or fresh
            if epoch then
              redis.call('HSET', KEYS[2], 'n', count, 'g', mark)
            else
              epoch, count = fresh, '0'
              if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('UNLINK', KEYS[2]) end
              redis.call('HSET', KEYS[2], 'e', epoch, 'n', count, 'g', mark, 'r', run())
            end
            for i = 0, tonumber(ARGV[7]) - 1 do
              if redis.call('PEXPIRE', key .. ':' .. ARGV[6] .. ':' .. i, ttl) == 0 then return { -1 } end
            end
            redis.call('PEXPIRE', KEYS[2], ARGV[15])
            local gens = generations(4, prefix, fresh, ARGV[15])
            drop(key, v)
            -- A look-up reads all variants, so of many only the first have their bodies with them.
            local chunks, isInline = ARGV[7], ARGV[10] == '1'
            if isInline and #ARGV[11] > 1024 and redis.call('HLEN', key) > 12 then
              redis.call('SET', key .. ':' .. ARGV[6] .. ':0', ARGV[11], 'PX', ttl)
              chunks, isInline = '1', false
            end
            local words = { '1', version, ARGV[2], string.format('%.0f-%.0f', began, ended), ARGV[4], string.format('%.0f', now + ttl),
              ARGV[6], chunks, ARGV[8], epoch, count, mark }
            redis.call('HSET', key, 'h' .. v, table.concat(words, ' ') .. gens, 'm' .. v, ARGV[9])
            if isInline then redis.call('HSET', key, 'b' .. v, ARGV[11]) end
            keep(key, math.max(ttl, 60000), ARGV[15])
            local variants, oldest, time = 0, nil, nil
            for _, name in ipairs(redis.call('HKEYS', key)) do
              if string.sub(name, 1, 1) == 'h' then
                local other = string.sub(name, 2)
                local o = living(field(key, name), now, epoch, prefix)
                if o then
                  variants = variants + 1
                  if not time or tonumber(o[2]) < time then oldest, time = other, tonumber(o[2]) end
                else
                  drop(key, other)
                end
              end
            end
            if variants > 64 then
              drop(key, oldest)
              variants = variants - 1
            end
            tell(ARGV[13], ARGV[14])
            return { 1, version, variants }
            """)

    /// KEYS: entry, rules, generations. ARGV: variant, version or nothing, random, life, record, channel, message, life of
    /// generations, their prefix.
    static let update = RedisScript(
        "the cache's update",
        common + """
            local key, v, ttl = KEYS[1], ARGV[1], tonumber(ARGV[4])
            local us = clock()
            local now = math.floor(us / 1000)
            local epoch, count, mark = rules(KEYS[2])
            local f = living(field(key, 'h' .. v), now, epoch, ARGV[9])
            if not f or (ARGV[2] ~= '' and ARGV[2] ~= f[2] .. ' ' .. f[3]) then return 0 end
            redis.call('HSET', KEYS[2], 'n', count)
            for i = 0, tonumber(f[8]) - 1 do redis.call('PEXPIRE', key .. ':' .. f[7] .. ':' .. i, ttl) end
            local gens = generations(3, ARGV[9], string.format('%.0f', us) .. ARGV[3], ARGV[8])
            f[6] = string.format('%.0f', now + ttl)
            f[12] = mark or f[12]
            redis.call('PEXPIRE', KEYS[2], ARGV[8])
            redis.call('HSET', key, 'h' .. v, table.concat(f, ' ', 1, 12) .. gens, 'm' .. v, ARGV[5])
            redis.call('HDEL', key, 't' .. v)
            keep(key, ttl, ARGV[8])
            tell(ARGV[6], ARGV[7])
            return 1
            """)

    /// KEYS: entry. ARGV: variant, time.
    static let touch = RedisScript(
        "the cache's touch",
        """
        if redis.call('HEXISTS', KEYS[1], 'h' .. ARGV[1]) == 1 then redis.call('HSET', KEYS[1], 't' .. ARGV[1], ARGV[2]) end
        return 1
        """)

    /// Removes one variant of an entry, all its variants, everything, or a generation together with the mark. KEYS: the
    /// entry; or rules, for everything; or the generation and rules. ARGV: channel, message, and the variant if only
    /// one is removed.
    static let remove = RedisScript(
        "the cache's removal",
        common + """
            local key = KEYS[1]
            if redis.call('TYPE', key).ok == 'hash' then
              if ARGV[3] then
                drop(key, ARGV[3])
              else
                for _, name in ipairs(redis.call('HKEYS', key)) do
                  if string.sub(name, 1, 1) == 'h' then free(key, field(key, name)) end
                end
                redis.call('UNLINK', key)
              end
            else
              if KEYS[2] then redis.pcall('HDEL', KEYS[2], 'g') end
              redis.call('UNLINK', key)
            end
            tell(ARGV[1], ARGV[2])
            return 1
            """)

    /// Adds a removal that no generation covers. At most 256 are stored; the next one removes everything instead.
    /// KEYS: rules. ARGV: removal, channel, message.
    static let removeByRule = RedisScript(
        "the cache's removal by prefix",
        common + """
            local epoch, count = rules(KEYS[1])
            if epoch then
              local number = tonumber(count) + 1
              if number > 256 then
                redis.call('UNLINK', KEYS[1])
              else
                redis.call('HSET', KEYS[1], 'n', number, tostring(number), ARGV[1])
              end
            end
            tell(ARGV[2], ARGV[3])
            return 1
            """)

    /// Drops a variant that a process could not replace, and announces the drop if the variant existed. If it existed,
    /// or Redis failed to store the newer one, responses whose fetch began before now are refused for ten minutes.
    /// KEYS: entry. ARGV: channel, message, variant, whether Redis failed to store the newer one.
    static let drop = RedisScript(
        "the cache's drop",
        common + """
            local key, us = KEYS[1], clock()
            local kind = redis.call('TYPE', key).ok
            local isDropped = kind == 'hash' and drop(key, ARGV[3]) > 0
            if isDropped then tell(ARGV[1], ARGV[2]) end
            if not isDropped and ARGV[4] ~= '1' then return 1 end
            if kind ~= 'hash' and kind ~= 'none' then redis.call('UNLINK', key) end
            -- May fail: a server whose memory is full cannot store an older response either.
            redis.pcall('HSET', key, 'f', string.format('%.0f', us))
            if redis.call('PTTL', key) < 600000 then redis.call('PEXPIRE', key, 600000) end
            return 1
            """)

    /// KEYS: lease. ARGV: random token, milliseconds. Returns 1 and the number for the lease, 0 and the milliseconds it is
    /// held, or 2 and a number when no process needs to wait.
    static let lease = RedisScript(
        "the cache's lease",
        common + """
            local us = clock()
            local held = redis.pcall('GET', KEYS[1])
            if type(held) == 'string' then
              local number = tonumber(string.match(held, '^(%d+) ') or '')
              local left = redis.call('PTTL', KEYS[1])
              -- A lease from the future was given before the clock was set back, and its key would live that much longer.
              if left > 0 and held == 'pass' and left <= 60000 then return { 2, string.format('%.0f', us) } end
              if left > 0 and number and number <= us + 1000000 then
                local longest = math.max(tonumber(ARGV[2]), 600000)
                if left > longest then redis.call('PEXPIRE', KEYS[1], longest) end
                return { 0, math.min(left, longest) }
              end
              if number and us <= number and number < 9007199254740991 then us = number + 1 end
            end
            local text = string.format('%.0f', us)
            redis.call('SET', KEYS[1], text .. ' ' .. ARGV[1], 'PX', ARGV[2])
            return { 1, text }
            """)

    /// KEYS: lease. ARGV: its value, milliseconds for which no process needs to wait, channel, message.
    static let release = RedisScript(
        "the end of the cache's lease",
        common + """
            if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
            if ARGV[2] == '0' then
              redis.call('UNLINK', KEYS[1])
            else
              redis.call('SET', KEYS[1], 'pass', 'PX', ARGV[2])
            end
            tell(ARGV[3], ARGV[4])
            return 1
            """)
}
