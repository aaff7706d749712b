-- Operators between the types of a family: bounds that no value of the column has, that lie outside
-- its range or between two of its values; and bounds whose meaning depends on the time zone.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
-- Columns: values are separated by ";".
CREATE TABLE kind (family text, type text, stored text);
INSERT INTO kind VALUES
('integer', 'int2', '(i % 300 - 150)::int2;32767;-32768;0;-1;NULL'),
('integer', 'int4', 'i % 300 - 150;2147483647;-2147483648;32767;32768;-32768;-32769;NULL'),
('integer', 'int8', 'i % 300 - 150;9223372036854775807;-9223372036854775808;2147483648;-2147483649;32768;NULL'),
('float', 'float4', '(i % 300 - 150)::float4 / 10;''NaN'';''Infinity'';''-Infinity'';''-0'';0;3.4028235e38;-3.4028235e38;1e-45;-1e-45;16777216;NULL'),
('float', 'float8', '(i % 300 - 150)::float8 / 10;''NaN'';''Infinity'';''-Infinity'';''-0'';0;1.7976931348623157e308;-1e300;5e-324;3.4028234663852886e38;3.4028235677973366e38;0.1::float4;16777217;NULL'),
('datetime', 'date', 'date ''2024-03-01'' + i % 300;''infinity'';''-infinity'';''4714-11-24 BC'';''5874897-12-31'';''294277-01-01'';''294276-12-31'';''2011-12-30'';''2011-12-31'';NULL'),
('datetime', 'timestamp', 'timestamp ''2024-03-30'' + i % 300 * interval ''30 minutes'';timestamp ''2024-11-03'' + i % 300 * interval ''15 minutes'';timestamp ''2011-12-29 12:00'' + i % 100 * interval ''1 hour'';''infinity'';''-infinity'';''4714-11-24 BC'';''294276-12-31 23:59:59.999999'';''2024-01-01'';NULL'),
('datetime', 'timestamptz', 'timestamptz ''2024-03-30 UTC'' + i % 300 * interval ''30 minutes'';timestamptz ''2024-11-03 UTC'' + i % 300 * interval ''15 minutes'';timestamptz ''2011-12-29 12:00 UTC'' + i % 100 * interval ''1 hour'';''infinity'';''-infinity'';''4714-11-24 00:00 UTC BC'';''294276-12-31 23:59:59.999999 UTC'';''2024-01-01 UTC'';NULL');
-- Bounds, by type.
CREATE TABLE bound (family text, type text, values text);
INSERT INTO bound VALUES
('integer', 'int2', '0;1;-1;100;32767;-32768;149;-150;150'),
('integer', 'int4', '0;-1;100;32767;32768;-32768;-32769;65536;2147483647;-2147483648'),
('integer', 'int8', '0;-1;100;32767;32768;-32768;-32769;4294967296;2147483647;2147483648;-2147483648;-2147483649;9223372036854775807;-9223372036854775808'),
('float', 'float4', '0;-0;NaN;Infinity;-Infinity;3.4028235e38;-3.4028235e38;1e-45;0.1;1;16777216;-7.3'),
('float', 'float8', '0;-0;NaN;Infinity;-Infinity;1.7976931348623157e308;-1.7976931348623157e308;5e-324;-5e-324;1e-46;3.4028235677973366e38;3.4028236e38;-3.41e38;0.1;0.10000000149011612;0.100000001;1;16777217;16777216.5;-7.3;7e-46'),
('datetime', 'date', '2024-03-31;2024-03-30;2024-11-03;2024-07-01;infinity;-infinity;4714-11-24 BC;5874897-12-31;294277-01-01;294276-12-31;2011-12-30;2011-12-31;2024-01-01'),
('datetime', 'timestamp', '2024-03-31;2024-03-31 02:00;2024-03-31 02:30;2024-03-31 02:59:59.999999;2024-03-31 03:00;2024-10-06 02:15;2024-11-03 01:00;2024-11-03 01:30;2024-11-03 00:00:00.000001;2011-12-30 12:00;2011-12-31;infinity;-infinity;4714-11-24 BC;294276-12-31 23:59:59.999999;2024-01-01'),
('datetime', 'timestamptz', '2024-03-31 UTC;2024-03-31 01:00 UTC;2024-03-31 00:59:59.999999 UTC;2024-03-31 02:00+02;2024-03-30 15:30 UTC;2024-03-30 18:30 UTC;2024-03-31 00:00 America/New_York;2024-11-03 05:30 UTC;2024-11-03 06:00 UTC;2024-11-03 06:30 UTC;2024-11-03 04:00:00.000001 UTC;2011-12-30 10:00 UTC;2011-12-31 00:00 Pacific/Apia;infinity;-infinity;4714-11-24 00:00 UTC BC;294276-12-31 23:59:59.999999 UTC;2024-01-01 UTC');
CREATE FUNCTION set_up(k kind) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  tab text;
  value text;
BEGIN
  FOREACH tab IN ARRAY ARRAY['asc_', 'desc_'] LOOP
    tab := tab || k.type;
    EXECUTE format('CREATE TABLE %s (id serial, v %s)', tab, k.type);
    FOREACH value IN ARRAY string_to_array(k.stored, ';') LOOP
      EXECUTE format('INSERT INTO %s (v) SELECT %s FROM generate_series(1, %s) i', tab, value, CASE WHEN value ~ '\mi\M' THEN 600 ELSE 3 END);
    END LOOP;
  END LOOP;
  EXECUTE format('CREATE INDEX asc_%1$s_idx ON asc_%1$s USING fpbtree (v)', k.type);
  EXECUTE format('CREATE INDEX desc_%1$s_idx ON desc_%1$s USING fpbtree (v DESC NULLS LAST)', k.type);
END $$;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT count(set_up(k)) FROM kind k;
CREATE FUNCTION conditions(k kind) RETURNS TABLE (bound text, condition text) LANGUAGE sql AS $$
  WITH value AS (
    SELECT b.type, format('%L::%s', v, b.type) AS v, n
      FROM bound b, string_to_table(b.values, ';') WITH ORDINALITY u(v, n)
     WHERE b.family = k.family AND b.type <> k.type)
  SELECT type, format('v %s %s', op, v) FROM value, unnest('{<,<=,=,>=,>}'::text[]) op
  UNION ALL SELECT type, format('%s %s v', v, op) FROM value, unnest('{<,=,>=}'::text[]) op WHERE n % 3 = 0
  UNION ALL SELECT a.type, format('v >= %s AND v < %s', a.v, b.v) FROM value a, value b
             WHERE a.n % 3 = 1 AND b.n % 4 = 2
  UNION ALL SELECT type, format('v = ANY (ARRAY[%s])', string_agg(v, ', ' ORDER BY n DESC)) FROM value GROUP BY type
  UNION ALL SELECT type, format('v = ANY (ARRAY[NULL, %s])', string_agg(v, ', ' ORDER BY n)) FROM value
             WHERE n % 2 = 0 GROUP BY type
  UNION ALL SELECT type, format('v = (SELECT NULL::%s)', type) FROM value WHERE n = 1
$$;
CREATE FUNCTION check_rows(k kind, zone text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  c record;
  what text;
  tabs text[] := ARRAY['asc_' || k.type, 'desc_' || k.type];
BEGIN
  PERFORM set_config('timezone', zone, true);
  FOR c IN SELECT * FROM conditions(k) LOOP
    what := concat_ws(' ', k.type, 'and', c.bound, 'in ' || nullif(zone, 'UTC'));
    PERFORM harness.compare(what, 'SELECT v{id} FROM {t} WHERE ' || c.condition, tabs,
                            CASE zone WHEN 'UTC' THEN '{index,indexonly,bitmap}' ELSE '{index}' END::text[], false);
    IF c.condition ~ '^v (<|>=|= ANY)' THEN
      PERFORM harness.compare(what, format('SELECT v{id} FROM {t} WHERE %s ORDER BY v{tie}', c.condition),
                              tabs[1:1], '{index}', true),
              harness.compare(what, format('SELECT v{id} FROM {t} WHERE %s ORDER BY v NULLS FIRST{tie}', c.condition),
                              tabs[2:2], '{index}', true);
    END IF;
  END LOOP;
END $$;
SELECT count(check_rows(k, 'UTC')) FROM kind k;
-- Half-hour and hour shifts, forwards and backwards, and a day that Samoa never had.
SELECT zone, count(check_rows(k, zone))
  FROM kind k, unnest('{Europe/Berlin,America/New_York,Australia/Lord_Howe,Pacific/Apia,Asia/Kolkata}'::text[]) zone
 WHERE k.family = 'datetime' GROUP BY zone ORDER BY zone COLLATE "C";
-- Joins between the types: the bound changes with every row of the outer side.
CREATE FUNCTION check_join(family text, way text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  o kind;
  i kind;
  op text;
  query text;
  got text;
  want text;
  plan text[];
BEGIN
  PERFORM set_config('enable_hashjoin', 'off', true), set_config('enable_material', 'off', true),
          set_config('enable_mergejoin', (way = 'merge')::text, true),
          set_config('enable_nestloop', (way <> 'merge')::text, true);
  FOR o IN SELECT * FROM kind k WHERE k.family = $1 LOOP
    FOR i IN SELECT * FROM kind k WHERE k.family = $1 AND k.type <> o.type LOOP
      FOREACH op IN ARRAY CASE way WHEN 'merge' THEN '{=}' ELSE '{=,<}' END::text[] LOOP
        query := format('SELECT o.v AS ov, i.v AS iv FROM asc_%s o JOIN asc_%s i ON i.v %s o.v WHERE o.id %% 7 = 1', o.type, i.type, op);
        PERFORM harness.use('index');
        plan := harness.nodes(query);
        got := harness.digest(query, false);
        PERFORM set_config('enable_nestloop', 'on', true), set_config('enable_mergejoin', 'off', true), harness.use('seq');
        want := harness.digest(query, false);
        PERFORM set_config('enable_nestloop', (way <> 'merge')::text, true), set_config('enable_mergejoin', (way = 'merge')::text, true);
        INSERT INTO harness.result SELECT format('%s join of %s', way, family), 1, (got <> want OR format('Index Scan on asc_%s_idx', i.type) <> ALL (plan))::int;
        INSERT INTO harness.problem SELECT 'join', query, way, want, got, plan
         WHERE got <> want OR format('Index Scan on asc_%s_idx', i.type) <> ALL (plan);
      END LOOP;
    END LOOP;
  END LOOP;
END $$;
SELECT count(check_join(family, way)) FROM unnest('{integer,float,datetime}'::text[]) family, unnest('{nested loop,merge}'::text[]) way;
-- Days on which clocks change, minute by minute. Of local times that clocks skip, later ones may be earlier
-- moments, and two be the same one: what compares with a moment lies in several places.
CREATE TABLE moment (v timestamptz);
CREATE TABLE minute_asc (n int, v timestamp);
CREATE INDEX minute_asc_idx ON minute_asc USING fpbtree (v);
CREATE TABLE minute_desc (n int, v timestamp);
CREATE INDEX minute_desc_idx ON minute_desc USING fpbtree (v DESC NULLS LAST);
CREATE TABLE minute_second (n int, v timestamp);
CREATE INDEX minute_second_idx ON minute_second USING fpbtree (n, v);
CREATE TABLE minute_first (n int, v timestamp);
CREATE INDEX minute_first_idx ON minute_first USING fpbtree (v DESC, n);
CREATE TABLE day_asc (n int, v date);
CREATE INDEX day_asc_idx ON day_asc USING fpbtree (v);
CREATE TABLE day_desc (n int, v date);
CREATE INDEX day_desc_idx ON day_desc USING fpbtree (v DESC NULLS LAST);
CREATE FUNCTION set_day(day timestamp) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  tab text;
BEGIN
  TRUNCATE moment, minute_asc, minute_desc, minute_second, minute_first, day_asc, day_desc;
  INSERT INTO moment
    SELECT v FROM generate_series(day::timestamptz - interval '3 hours', day::timestamptz + interval '27 hours', '15 minutes') v
    UNION SELECT v FROM generate_series(day::timestamptz - interval '11 days', day::timestamptz + interval '11 days', '11 hours') v
    UNION SELECT unnest('{infinity,-infinity}'::timestamptz[]);
  FOREACH tab IN ARRAY '{minute_asc,minute_desc,minute_second,minute_first}'::text[] LOOP
    EXECUTE format($q$INSERT INTO %s
      SELECT extract(minute FROM v) %% 3, v
        FROM (SELECT generate_series($1, $1 + interval '1 day', '1 minute')
              UNION SELECT generate_series($1, $1 + interval '1 day', '15 minutes') + side * interval '1 microsecond'
                      FROM unnest('{-1,1}'::int[]) side
              UNION SELECT generate_series($1 - interval '11 days', $1 + interval '11 days', '2 hours')
              UNION SELECT unnest('{infinity,-infinity,NULL}'::timestamp[])) u (v)$q$, tab) USING day;
  END LOOP;
  INSERT INTO day_asc SELECT 1, v FROM generate_series(day - interval '11 days', day + interval '11 days', '1 day') v;
  INSERT INTO day_asc VALUES (1, 'infinity'), (1, '-infinity'), (1, NULL);
  INSERT INTO day_desc TABLE day_asc;
END $$;
CREATE FUNCTION check_day(zone text, day timestamp) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  what text := format('clocks of %s on %s', zone, day::date);
  -- All values found, and those that come first.
  every text := 'SELECT a.v, (SELECT count(*) || '' '' || sum(timestamp_hash(r.v::timestamp)) FROM {t} r WHERE %s) FROM moment a';
  first text := 'SELECT a.v, ARRAY(SELECT r.v FROM {t} r WHERE r.v %s a.v ORDER BY r.v %s LIMIT 100) FROM moment a';
  ways text[] := '{index,indexonly,bitmap}';
  op text;
BEGIN
  PERFORM set_config('timezone', zone, true), set_day(day);
  FOREACH op IN ARRAY '{<,<=,=,>=,>}'::text[] LOOP
    PERFORM harness.compare(what, format(every, format('r.v %s a.v', op)), '{minute_asc,minute_desc}', ways, false),
            harness.compare(what, format(every, format('r.v %s a.v', op)), '{day_asc,day_desc}', ways, false);
    -- In order; "=" would leave the order to chance.
    IF op <> '=' THEN
      PERFORM harness.compare(what, format(first, op, ''), '{minute_asc}', '{index}', true),
              harness.compare(what, format(first, op, 'DESC'), '{minute_asc}', '{index}', true),
              harness.compare(what, format(first, op, 'NULLS FIRST'), '{minute_desc}', '{index}', true);
    END IF;
    -- Arrays; several conditions on a column; several columns.
    PERFORM harness.compare(what, format(every, replace(condition, '?', op)), '{minute_asc,minute_desc}', '{index}', false)
       FROM (VALUES
         ('r.v ? ANY (ARRAY[a.v, NULL, a.v + interval ''20 minutes'', a.v - interval ''3 hours''])'),
         ('r.v ? a.v AND r.v >= a.v - interval ''45 minutes'' AND r.v < a.v + interval ''45 minutes'''),
         ('r.v ? a.v AND r.v = ANY (ARRAY[a.v, a.v + interval ''1 hour''])'),
         (format('r.v ? a.v AND r.v > %L::timestamp AND r.v <= %L::timestamp', day + interval '90 minutes', day + interval '20 hours')),
         (format('r.v ? a.v AND r.v = ANY (ARRAY[%L, %L]::timestamp[])', day, day + interval '150 minutes'))) c(condition);
    PERFORM harness.compare(what, format(every, format('r.n = 1 AND r.v %s a.v', op)), '{minute_second,minute_first}', ways, false),
            harness.compare(what, format(every, format('r.n >= 1 AND r.v %s a.v', op)), '{minute_second,minute_first}', '{index}', false);
  END LOOP;
END $$;
-- The zone named last is one whose clocks jump by more than a week.
SELECT zone, day::date, count(check_day(zone, day))
  FROM (VALUES ('Europe/Berlin', timestamp '2024-03-31'), ('Europe/Berlin', '2024-10-27'),
               ('America/New_York', '2024-03-10'), ('Australia/Lord_Howe', '2024-10-06'),
               ('Pacific/Apia', '2011-12-30'), ('Pacific/Kwajalein', '1993-08-21'),
               ('<OLD>+100<NEW>-100,M3.5.0,M10.5.0', '2024-03-31')) change (zone, day)
 GROUP BY zone, day ORDER BY zone COLLATE "C", day;
SELECT count(harness.sound('clocks', format('%s_idx', tab)::regclass))
  FROM unnest('{minute_asc,minute_desc,minute_second,minute_first,day_asc,day_desc}'::text[]) tab;
SELECT count(harness.sound(type, format('%s_%s_idx', direction, type)::regclass))
  FROM kind, unnest('{asc,desc}'::text[]) direction;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
\set ECHO none
SELECT 'DROP TABLE ' || string_agg(tablename, ', ') FROM pg_tables WHERE tablename ~ '^(asc|desc)_' \gexec
\set ECHO all
DROP FUNCTION set_up, conditions, check_rows, check_join, set_day, check_day;
DROP TABLE kind, bound, moment, minute_asc, minute_desc, minute_second, minute_first, day_asc, day_desc;
RESET timezone;
RESET datestyle;
