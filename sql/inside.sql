-- What fpbtree_page and fpbtree_entries show of an index beside what is in the table, and what is drawn
-- of it.
-- Needs: icu
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE SCHEMA inside;
GRANT USAGE ON SCHEMA inside TO PUBLIC;
SET search_path = inside, public;
-- The pages of a level by their right links, from the first child of the level above.
CREATE FUNCTION walk(idx regclass) RETURNS TABLE (level int, block bigint) LANGUAGE plpgsql AS $$
DECLARE
  first bigint := 1;
  p record;
BEGIN
  LOOP
    block := first;
    LOOP
      SELECT * INTO STRICT p FROM fpbtree_page(idx, block);
      level := p.level;
      RETURN NEXT;
      EXIT WHEN p.right_sibling IS NULL;
      block := p.right_sibling;
    END LOOP;
    EXIT WHEN level = 0;
    SELECT e.child INTO STRICT first FROM fpbtree_entries(idx, first) e WHERE e.number = 1;
  END LOOP;
END $$;
-- Of an index on these expressions: is each row of the table found once in the leaves, with its values, and nothing
-- else; are pages and entries counted alike; is each page but the root a child of the level above?
CREATE FUNCTION compare(what text, idx regclass, tab regclass, expressions text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  bad bigint;
  shown bigint;
  wrong text;
BEGIN
  CREATE TEMP TABLE live ON COMMIT DROP AS SELECT w.level AS at, w.block, p.* FROM walk(idx) w, fpbtree_page(idx, w.block) p;
  CREATE TEMP TABLE shown ON COMMIT DROP AS SELECT l.level, l.block, e.* FROM live l, fpbtree_entries(idx, l.block) e;
  EXECUTE format('CREATE TEMP TABLE wanted ON COMMIT DROP AS SELECT ctid AS tid, ARRAY[%s] AS columns FROM %s',
                 (SELECT string_agg(format('CASE WHEN %1$s IS NOT NULL THEN format(''%%s'', %1$s) END', x), ', ') FROM regexp_split_to_table(expressions, ', ') x), tab);
  SELECT count(*) INTO bad FROM wanted w FULL JOIN (SELECT * FROM shown WHERE level = 0) s ON s.tid = w.tid WHERE w.tid IS NULL OR s.tid IS NULL;
  PERFORM harness.expect(what, bad = 0, 'the same rows');
  SELECT count(*), min(s.columns::text || ' is ' || w.columns::text) INTO bad, wrong
    FROM wanted w JOIN shown s ON s.level = 0 AND s.tid = w.tid WHERE s.columns IS DISTINCT FROM w.columns;
  PERFORM harness.expect(what, bad = 0, 'the same values', wrong);
  SELECT count(*) INTO shown FROM shown s WHERE s.level = 0;
  PERFORM harness.expect(what, shown = (SELECT count(*) FROM wanted), 'each of them once');
  PERFORM harness.expect(what, shown = (SELECT sum(l.entries) FROM live l WHERE l.level = 0), 'as many as pages say');
  PERFORM harness.expect(what, NOT EXISTS (
    SELECT FROM live l LEFT JOIN shown s USING (level, block)
     GROUP BY l.level, l.block, l.entries, l.nodes, l.dead_entries, l.lane_widths, l.pointer_widths, l.free_bytes, l.fill
    HAVING l.entries <> count(s.number) OR l.nodes <> coalesce(max(s.node), 0) OR l.dead_entries <> count(*) FILTER (WHERE s.dead)
        OR l.nodes <> cardinality(l.lane_widths) OR l.nodes <> cardinality(l.pointer_widths)
        OR count(s.number) <> coalesce(max(s.number), 0)
        -- Fences take bytes of pages of byte strings, too.
        OR coalesce(sum(s.bytes), 0) > (l.free_bytes / (1 - l.fill)) * l.fill + 1e-6), 'pages and entries agree');
  PERFORM harness.expect(what, (SELECT array_agg(l.block ORDER BY l.block) FROM live l WHERE l.block > 1)
    IS NOT DISTINCT FROM (SELECT array_agg(s.child ORDER BY s.child) FROM shown s WHERE s.level > 0), 'children');
  PERFORM harness.expect(what, NOT EXISTS (SELECT FROM live l WHERE l.at <> l.level OR l.type <> CASE l.level WHEN 0 THEN 'leaf' ELSE 'inner' END
    OR (l.left_sibling IS NULL) <> (l.low_fence IS NULL) OR (l.right_sibling IS NULL) <> (l.high_fence IS NULL)
    OR (l.block = 1) <> (l.flags = '{root}')), 'types, siblings and fences');
  PERFORM harness.expect(what, NOT EXISTS (SELECT FROM live l JOIN live r ON r.block = l.right_sibling
    WHERE r.left_sibling <> l.block OR r.low_fence <> l.high_fence OR r.level <> l.level), 'neighbours');
  -- What an inner page says of a child is the child's low fence.
  SELECT count(*), min(concat_ws(' is ', s.columns::text, l.low_fence)) INTO bad, wrong
    FROM shown s JOIN live l ON l.block = s.child
   WHERE s.level > 0 AND CASE WHEN l.low_fence IS NULL THEN s.columns IS NOT NULL
     ELSE s.columns IS NOT NULL AND l.low_fence NOT LIKE replace('(' || array_to_string(s.columns, ', ', 'NULL'), '\', '\\') || '%' END;
  PERFORM harness.expect(what, bad = 0, 'parents', wrong);
  -- Drawn: a line for each node, and each node twice.
  PERFORM harness.expect(what, bool_and(picture ~ '^<svg .*</svg>\s$' AND octet_length(picture) = length(picture)
      AND (length(picture) - length(replace(picture, '"line"', ''))) / 6 = nodes
      AND (length(picture) - length(replace(picture, '"edge" x', ''))) / 8 = 2 * nodes + 1), 'pictures')
    FROM live l, fpbtree_picture(idx, l.block) picture;
  DROP TABLE live, shown, wanted;
END $$;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE t (i int, s int2, b bigint, f float8, n numeric, x text, c char(9), m name, d date, z timestamptz, u uuid,
  y bytea, a int[], e mood, o boolean, v interval, r inet, j jsonb, w text);
INSERT INTO t SELECT CASE WHEN g % 50 > 0 THEN g * 7 % 3001 END, g % 5, g * 1000003::bigint % 99991,
    CASE g % 20 WHEN 0 THEN '-0' WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' ELSE (g - 1500) / 8.0 END,
    CASE WHEN g % 40 > 0 THEN (g * 37 % 2000 - 1000) / (10.0 ^ (g % 4))::numeric(9, 3) END,
    CASE WHEN g % 30 > 0 THEN 'text ' || g * 13 % 700 || repeat('ü€', g % 3) END, 'c' || g % 99, 'name ' || g,
    CASE WHEN g % 9 = 0 THEN '-infinity' ELSE date '4700-01-01 BC' + g END, timestamptz '2020-01-01' + g * interval '1.5 hours',
    md5(g::text)::uuid, decode(md5(g::text), 'hex'), ARRAY[g % 3, g % 100], (ARRAY['sad', 'ok', 'happy'])[1 + g % 3]::mood,
    g % 3 = 0, g % 200 * interval '1 day 3 minutes', ('10.1.' || g % 256 || '.1')::inet, jsonb_build_object('k', g % 300),
    repeat(md5(g::text), g % 20)
  FROM generate_series(1, 3000) g;
CREATE TABLE made (what text, columns text, options text);
INSERT INTO made VALUES
('an integer', 'i', 'i'), ('an integer, descending', 'i', 'i DESC'), ('NULLs first', 'i', 'i NULLS FIRST'),
('NULLs last', 'i', 'i DESC NULLS LAST'), ('duplicates', 's', 's'), ('two integers', 'i, s', 'i DESC, s'),
('a bigint', 'b', 'b'), ('a uuid', 'u', 'u'), ('a float', 'f', 'f DESC'), ('a boolean', 'o', 'o'),
('a date and a boolean', 'd, o', 'd, o DESC'), ('a timestamp', 'z', 'z'), ('a text', 'x', 'x COLLATE "C"'),
('a text, descending', 'x', 'x COLLATE "C" DESC'), ('a text in linguistic order', 'x', 'x COLLATE "en-x-icu"'),
('a text and an integer', 'x, i', 'x COLLATE "C", i'), ('a text in between', 'i, x, b', 'i, x COLLATE "en-x-icu", b'),
('a numeric', 'n', 'n'), ('numerics, descending', 'n, b', 'n DESC, b DESC'), ('a character(n)', 'c', 'c COLLATE "C"'),
('a name', 'm', 'm'), ('bytes', 'y', 'y'), ('an array', 'a', 'a'), ('an enum', 'e', 'e'), ('intervals', 'v, i', 'v, i'),
('addresses', 'r, b', 'r, b'), ('jsonb', 'j', 'j'), ('dates and texts', 'd, x, z', 'd, x COLLATE "C", z'),
('a pattern', 'x', 'x text_pattern_ops'), ('long texts', 'w', 'w COLLATE "C"'), ('long ones of a language', 'w', 'w COLLATE "en-x-icu"'),
('included', 'i, x, j', 'i) INCLUDE (x, j'), ('a text with what is included', 'x, w, n', 'x COLLATE "C") INCLUDE (w, n');
SELECT format('CREATE INDEX shown_%s ON t USING fpbtree (%s)', row_number() OVER (), options) FROM made \gexec
SELECT compare(what, format('shown_%s', row_number() OVER ())::regclass, 't', columns) FROM made;
-- What an inner page tells of a key, which may be cut short, is between the last key before it and the first behind it.
CREATE FUNCTION parted(idx regclass, type text) RETURNS TABLE (pages boolean, told boolean, rightly boolean) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY EXECUTE format($q$
    WITH leaf AS (SELECT w.block, p.left_sibling FROM walk(%1$L) w, fpbtree_page(%1$L, w.block) p WHERE w.level = 0),
      inside AS MATERIALIZED (SELECT e.child, e.columns[1]::%2$s AS key FROM walk(%1$L) w, fpbtree_entries(%1$L, w.block) e WHERE w.level > 0),
      ends AS MATERIALIZED (SELECT l.block, (array_agg(e.columns[1] ORDER BY e.number))[1]::%2$s AS first,
        (array_agg(e.columns[1] ORDER BY e.number DESC))[1]::%2$s AS last FROM leaf l, fpbtree_entries(%1$L, l.block) e GROUP BY l.block)
    SELECT count(*) > 1, count(i.key) > 0, bool_and(i.key BETWEEN SYMMETRIC a.last AND b.first)
      FROM leaf l JOIN ends a ON a.block = l.left_sibling JOIN ends b ON b.block = l.block JOIN inside i ON i.child = l.block
  $q$, idx, type);
END $$;
SELECT what, type, p.* FROM (SELECT *, row_number() OVER () FROM made) m JOIN (VALUES ('an integer', 'int'), ('an integer, descending', 'int'),
    ('a bigint', 'int8'), ('a uuid', 'uuid'), ('a float', 'float8'), ('a timestamp', 'timestamptz'), ('a text', 'text COLLATE "C"'),
    ('a text, descending', 'text COLLATE "C"'), ('a pattern', 'text COLLATE "C"'), ('long texts', 'text COLLATE "C"'),
    ('a text in linguistic order', 'text COLLATE "en-x-icu"'), ('a numeric', 'numeric'), ('numerics, descending', 'numeric'),
    ('a character(n)', 'char(9) COLLATE "C"'), ('a name', 'name COLLATE "C"'), ('bytes', 'bytea'), ('intervals', 'interval'),
    ('addresses', 'inet'), ('dates and texts', 'date'), ('jsonb', 'jsonb'), ('an array', 'int[]'), ('an enum', 'mood')) t (what, type) USING (what),
  parted(format('shown_%s', row_number)::regclass, type) p ORDER BY what COLLATE "C";
-- After insertions one by one, and without rows.
CREATE TABLE grown (LIKE t);
SELECT format('CREATE INDEX grown_%s ON grown USING fpbtree (%s)', row_number() OVER (), options) FROM made \gexec
SELECT compare(what, format('grown_%s', row_number() OVER ())::regclass, 'grown', columns) FROM made;
INSERT INTO grown SELECT * FROM t ORDER BY md5(i::text), ctid LIMIT 100;
INSERT INTO grown SELECT * FROM t ORDER BY md5(b::text), ctid;
SELECT compare(what, format('grown_%s', row_number() OVER ())::regclass, 'grown', columns) FROM made;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem;
-- Small enough to be shown.
CREATE TABLE few (k int, name text, note text);
INSERT INTO few VALUES (3, 'drei', 'x'), (1, 'eins', NULL), (NULL, 'nichts', 'y'), (2, NULL, ''), (2, 'zwei', 'z');
CREATE INDEX few_k ON few USING fpbtree (k);
CREATE INDEX few_both ON few USING fpbtree (k DESC, name COLLATE "C") INCLUDE (note);
SELECT b, p.* FROM generate_series(0, 1) b, fpbtree_page('few_k', b) p;
SELECT * FROM fpbtree_entries('few_k', 1);
SELECT * FROM fpbtree_page('few_both', 1);
SELECT * FROM fpbtree_entries('few_both', 1);
-- Fences of a tree of three levels, cut short, and of equal keys, with TIDs.
CREATE TABLE deep (k int, name text);
INSERT INTO deep SELECT 7, 'name ' || lpad(g::text, 12, '0') || repeat('.', 1000) FROM generate_series(1, 4000) g;
CREATE INDEX deep_k ON deep USING fpbtree (k);
CREATE INDEX deep_name ON deep USING fpbtree (name COLLATE "C");
SELECT level, count(*) > 1 AS several, min(p.low_fence) FILTER (WHERE p.low_fence IS NOT NULL) AS first, max(length(p.low_fence)) AS longest
  FROM walk('deep_name') w (l, b), fpbtree_page('deep_name', b) p GROUP BY level ORDER BY level;
SELECT left_sibling IS NULL AS first, low_fence ~ '^\(7\) at \(\d+,\d+\)$' AS tied FROM walk('deep_k') w (l, b), fpbtree_page('deep_k', b) WHERE level = 0 ORDER BY 1 DESC LIMIT 2;
-- The dead.
CREATE TABLE dying (id int, k int);
INSERT INTO dying SELECT g, g FROM generate_series(1, 20000) g;
CREATE INDEX dying_k ON dying USING fpbtree (k);
DELETE FROM dying WHERE id % 3 = 0;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT count(id) FROM dying WHERE k > 0;
SELECT count(id) FROM dying WHERE k > 0;
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;
SELECT sum(p.dead_entries) = (SELECT dead_entries FROM fpbtree_stats('dying_k')) AS as_counted FROM walk('dying_k') w, fpbtree_page('dying_k', block) p;
SELECT count(*) > 6000 AS dead, bool_and(e.columns[1]::int % 3 = 0) AS rightly, count(d) AS living
  FROM walk('dying_k') w, fpbtree_entries('dying_k', block) e LEFT JOIN dying d ON d.ctid = e.tid WHERE e.dead;
SELECT bool_and(fpbtree_picture('dying_k', block) ~ 'class="dead" x="\d' AND fpbtree_map('dying_k') ~ ' dead') AS drawn FROM walk('dying_k') WHERE level = 0;
-- VACUUM's pages, and those of no tree.
DELETE FROM dying WHERE id BETWEEN 2000 AND 17000;
ALTER TABLE dying SET (vacuum_truncate = off);
VACUUM dying;
SELECT count(*) = (SELECT deleted_pages FROM fpbtree_stats('dying_k')) AS as_counted, count(*) > 3 AS several, bool_and(p.type IN ('deleted', 'new') AND p.entries IS NULL) AS empty
  FROM generate_series(2, pg_relation_size('dying_k') / 8192 - 1) b, fpbtree_page('dying_k', b) p WHERE p.type NOT IN ('leaf', 'inner');
SELECT count(*) FROM generate_series(2, pg_relation_size('dying_k') / 8192 - 1) b, fpbtree_page('dying_k', b) p, fpbtree_entries('dying_k', b) WHERE p.type IN ('deleted', 'new');
SELECT DISTINCT fpbtree_picture('few_k', 0) ~ 'meta page.*lanes of 32 bits.*</svg>' AS meta FROM walk('few_k');
-- Names and keys are text, not markup, and ASCII in any encoding.
CREATE TABLE odd (k text);
INSERT INTO odd VALUES ('<script>&"ü€'), (E'\x01\n');
CREATE INDEX "<i>""ö&" ON odd USING fpbtree (k COLLATE "C");
SELECT p ~ '&lt;i&gt;&quot;&#246;&amp;' AS name, p ~ '&#65533;' AS control, p !~ '<(i|script)>' AS no_markup, octet_length(p) = length(p) AS ascii
  FROM fpbtree_picture('"<i>""ö&"', 1) p;
SELECT p ~ '&lt;i&gt;&quot;&#246;&amp;' AS name, octet_length(p) = length(p) AS ascii FROM fpbtree_map('"<i>""ö&"') p;
-- The map has a cell for each page, and says of each what it is.
SELECT (SELECT count(*) FROM regexp_matches(m, '<title>block \d[^ ]*: ', 'g')) = (SELECT leaf_pages + inner_pages FROM fpbtree_stats('deep_name')) AS cells, m ~ 'Level 1' AS levels
  FROM fpbtree_map('deep_name') m;
SELECT fpbtree_map('few_k') ~ 'the root is a leaf' AS one_level;
-- What is refused.
CREATE TABLE part (k int) PARTITION BY RANGE (k);
CREATE INDEX part_k ON part USING fpbtree (k);
CREATE INDEX few_btree ON few (k);
SELECT f AS function, b AS block, replace(harness.outcome(format('SELECT * FROM %s(''few_k'', %s)', f, b)), 'few_k', 'i') AS outcome
  FROM unnest('{fpbtree_page,fpbtree_entries,fpbtree_picture}'::text[]) f, unnest('{-1,0,2,4294967296,9223372036854775807,"NULL"}'::text[]) b;
SELECT * FROM fpbtree_page('few_k', 2);
SELECT * FROM fpbtree_entries('few_k', 0);
SELECT f AS function, t AS target, harness.outcome(format('SELECT * FROM %s(%L%s)', f, t, CASE f WHEN 'fpbtree_map' THEN '' ELSE ', 1' END))
  FROM unnest('{fpbtree_page,fpbtree_entries,fpbtree_picture,fpbtree_map}'::text[]) f, unnest('{few,few_btree,part_k,no_such}'::text[]) t;
-- Key values are the owner's to see; the map has none.
CREATE ROLE regress_fpbtree_other;
GRANT USAGE ON SCHEMA harness, public TO regress_fpbtree_other;
GRANT SELECT ON few TO regress_fpbtree_other;
SET ROLE regress_fpbtree_other;
SELECT f AS function, harness.outcome(format('SELECT * FROM %s(''few_k''%s)', f, CASE f WHEN 'fpbtree_map' THEN '' ELSE ', 1' END))
  FROM unnest('{fpbtree_page,fpbtree_entries,fpbtree_picture,fpbtree_map}'::text[]) f;
SELECT harness.outcome('SELECT * FROM fpbtree_map(''deep_k'')');
RESET ROLE;
-- The owner need not be a superuser.
ALTER TABLE few OWNER TO regress_fpbtree_other;
SET ROLE regress_fpbtree_other;
SELECT count(*) FROM fpbtree_page('few_k', 1), fpbtree_entries('few_k', 1);
RESET ROLE;
SELECT current_user = session_user AS still_myself;
ALTER TABLE few OWNER TO CURRENT_USER;
REVOKE ALL ON SCHEMA harness, public FROM regress_fpbtree_other;
REVOKE ALL ON few FROM regress_fpbtree_other;
DROP ROLE regress_fpbtree_other;
-- This session's temporary tables.
CREATE TEMP TABLE mine (k int);
INSERT INTO mine SELECT generate_series(1, 5);
CREATE INDEX mine_k ON mine USING fpbtree (k);
SELECT count(*) FROM fpbtree_entries('mine_k', 1);
\set ECHO none
DROP SCHEMA inside CASCADE;
