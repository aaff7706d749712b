-- fpbtree_advise(): what indexes of btree's would be as fpbtree's, held against what they are once they are built; and what
-- speaks against that.
-- Needs: citext
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
\set SHOW_CONTEXT never
LOAD 'fpbtree';
SET fpbtree.unique_index = 'silent';
-- A mixed schema. The collation is one with rules where the server has any.
SELECT coalesce(min(quote_ident(collname)), '"C"') AS collation FROM pg_collation WHERE collname = 'en-x-icu' \gset
CREATE SCHEMA mixed;
SET search_path = mixed, public;
CREATE EXTENSION citext SCHEMA mixed;
CREATE TYPE mood AS ENUM ('calm', 'cross', 'glad', 'sad');
CREATE FUNCTION chance(n int, seed int) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT hashint8extended(n, seed) $$;
CREATE TABLE t (id int, random_int int, random_big bigint, parent int, ordered_parent int, u uuid, c text COLLATE "C", l text COLLATE :collation,
  amount numeric, price numeric(12, 2), tenant int, number int, at timestamptz, flag bool, m mood, day date, long text COLLATE "C", some_null int,
  x float8, doc jsonb, ints int[], blanks char(20) COLLATE "C", span tstzrange);
-- These grow with the table, the others are built.
CREATE INDEX grown_random ON t (random_int);
CREATE INDEX grown_text ON t (c);
CREATE INDEX grown_parent ON t (parent);
CREATE INDEX grown_id ON t (id);
INSERT INTO t SELECT i, chance(i, 1)::int8 % 1000000000, chance(i, 2), abs(chance(i, 3) % 5000), i / 10, md5(i::text)::uuid,
    'user' || abs(chance(i, 4) % 1000000) || '@example.org', substr(md5(i::text), 1, 6) || ' ' || substr(md5(i || 'x'), 1, 7), chance(i, 5) / 1000000.0,
    abs(chance(i, 6) % 1000000) / 100.0, abs(chance(i, 7) % 200), i / 200, timestamptz '2026-01-01' + i * interval '7 seconds', i % 3 = 0,
    (enum_range(NULL::mood))[1 + i % 4], date '2020-01-01' + abs(chance(i, 8) % 3000)::int, repeat(md5(i::text), 3 + i % 17), nullif(i % 2, 0) * i,
    chance(i, 9) / 1e9, jsonb_build_object('n', i, 'v', md5(i::text)), ARRAY[i % 100, i, i * 2], 'b' || chance(i, 10) % 100000,
    tstzrange(timestamptz '2026-01-01' + i * interval '1 minute', timestamptz '2026-01-02' + i * interval '1 minute')
  FROM generate_series(1, 50000) i;
CREATE INDEX ints ON t (random_int);
CREATE INDEX ids ON t (id);
CREATE INDEX bigs ON t (random_big DESC);
CREATE INDEX parents ON t (parent);
CREATE INDEX ordered_parents ON t (ordered_parent);
CREATE INDEX uuids ON t (u);
CREATE INDEX texts ON t (c);
CREATE INDEX words ON t (l);
CREATE INDEX numerics ON t (amount);
CREATE INDEX prices ON t (price);
CREATE INDEX numbers ON t (tenant, number);
CREATE INDEX parent_and_text ON t (parent, c);
CREATE INDEX included ON t (c) INCLUDE (id, at);
CREATE INDEX times ON t (at);
CREATE INDEX flags ON t (flag);
CREATE INDEX moods ON t (m);
CREATE INDEX days ON t (day);
CREATE INDEX longs ON t (long);
CREATE INDEX some_nulls ON t (some_null NULLS FIRST);
CREATE INDEX floats ON t (x, random_big);
CREATE INDEX wide ON t (random_big, at, id);
CREATE INDEX docs ON t (doc);
CREATE INDEX arrays ON t (ints);
CREATE INDEX blanks ON t (blanks);
CREATE INDEX spans ON t (span);
CREATE INDEX partial ON t (random_int) WHERE flag;
CREATE INDEX expression ON t (lower(c), (id % 7));
CREATE INDEX patterns ON t (l text_pattern_ops);
CREATE INDEX citizens ON t ((l::citext));
CREATE INDEX half_full ON t (random_int) WITH (fillfactor = 50);
CREATE INDEX empty ON t (id) WHERE false;
CREATE INDEX one_row ON t (id) WHERE id = 1;
VACUUM ANALYZE t;
SELECT FROM fpbtree_adopt('citext_ops') \g /dev/null
CREATE TABLE advice AS SELECT 300 AS pages, * FROM fpbtree_advise('mixed') UNION ALL SELECT 60, * FROM fpbtree_advise('mixed', 60);
-- The truth.
\set ECHO none
SELECT replace(replace(pg_get_indexdef(oid), ' USING btree ', ' USING fpbtree '), 'INDEX ', 'INDEX fp_') FROM pg_class
 WHERE relnamespace = 'mixed'::regnamespace AND relkind = 'i' ORDER BY relname \gexec
\set ECHO all
CREATE VIEW compared AS
  SELECT pages, index, expected, certainty, pg_relation_size('fp_' || index) AS truth, expected::float8 / pg_relation_size('fp_' || index) AS ratio FROM advice;
-- Where all of an index was read, no more than inner pages are guessed. By a sample, 9 of 10 within 10 %.
SELECT count(*) > 35 AS many, count(*) FILTER (WHERE abs(expected - truth) > greatest(8192, truth / 100)) AS wrong
  FROM compared WHERE certainty ~ 'all leaves';
SELECT pages, count(*), count(*) FILTER (WHERE abs(ratio - 1) <= 0.1) >= 0.9 * count(*) AS nearly_right,
    count(*) FILTER (WHERE certainty ~ 'by [0-9]+ leaves') > 5 AS sampled
  FROM compared GROUP BY pages ORDER BY pages DESC;
SELECT bool_and(size = pg_relation_size(index::regclass)) AS sizes, bool_and(share = round(expected::numeric / size, 2)) AS shares,
    bool_and(certainty ~ '^size: by (all leaves|[0-9]+ leaves); times: (measured|alike|not measured)$') AS certainties FROM advice;
-- The same again: chance has no part in it.
CREATE VIEW names AS SELECT c.relname AS index FROM pg_class c WHERE relnamespace = 'mixed'::regnamespace AND relkind = 'i' AND relname !~ '^fp_';
SELECT count(*) FROM (SELECT index, expected FROM advice WHERE pages = 60 EXCEPT
    SELECT index, s.expected FROM names, fpbtree_advise_sample(index::regclass, 60) s) a;
-- What kinds they are, and what that means.
SELECT index, kind, substring(certainty FROM 'times: (.*)') AS times FROM advice WHERE pages = 300 AND index <> 'words' ORDER BY index;
SELECT CASE :'collation' WHEN '"C"' THEN 'texts, C' ELSE 'texts, ICU' END = kind AS as_stated FROM advice WHERE pages = 300 AND index = 'words';
SELECT index, faster, slower FROM advice WHERE pages = 300 AND index IN ('ids', 'moods', 'spans', 'texts') ORDER BY index;
SELECT index, why_not, remarks FROM advice WHERE pages = 300 AND index IN ('empty', 'one_row', 'ints', 'arrays') ORDER BY index;
-- These are compressed in a btree, and byte order keeps them from that here.
SELECT share > 1.2 AS larger, why_not IS NULL AS joins_gain FROM advice WHERE pages = 300 AND index = 'longs';
SELECT index, why_not[1] ~ '^nothing gained: it would take [01].[0-9]+ of that, and joins are not known to gain$' AS as_stated
  FROM advice WHERE pages = 300 AND index IN ('docs', 'spans') ORDER BY index;
-- Figures are one number, or two; every kind that is told of has some.
SELECT count(*) AS kinds, bool_and(f.figure ~ '^[0-9]\.[0-9][0-9](-[0-9]\.[0-9][0-9])?$') AS sound
  FROM fpbtree_advise_figures() k, jsonb_each_text(to_jsonb(k) - 'kind') f (what, figure);
SELECT DISTINCT kind FROM advice WHERE kind NOT IN (SELECT kind FROM fpbtree_advise_figures());
-- Why not: what is so before 18 alone is a remark since.
CREATE SCHEMA reasons;
SET search_path = reasons, public;
CREATE FUNCTION modern() RETURNS boolean LANGUAGE sql AS $$ SELECT current_setting('server_version_num')::int >= 180000 $$;
CREATE TABLE product (id int PRIMARY KEY, code text COLLATE "C", name text COLLATE "C", part int NOT NULL, length text COLLATE "C", at int,
  CONSTRAINT product_name UNIQUE (name) DEFERRABLE, CONSTRAINT product_at EXCLUDE USING btree (at WITH =));
CREATE UNIQUE INDEX product_code ON product (code);
CREATE UNIQUE INDEX product_part ON product (part);
CREATE UNIQUE INDEX product_kept ON product (part, id);
CREATE INDEX product_length ON product (length);
CREATE INDEX product_invalid ON product (at);
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'product_invalid'::regclass;
CREATE TABLE sold (product int REFERENCES product, part int REFERENCES product (part));
ALTER TABLE product ALTER id SET NOT NULL, REPLICA IDENTITY USING INDEX product_kept;
INSERT INTO product SELECT i, 'c' || i, 'n' || i, i, 'l' || i, i FROM generate_series(1, 3000) i;
UPDATE product SET length = (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 70) n) WHERE id = 7;
CREATE MATERIALIZED VIEW seen AS SELECT i FROM generate_series(1, 3000) i;
CREATE UNIQUE INDEX seen_i ON seen (i);
CREATE TABLE parted (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE UNIQUE INDEX parted_id ON parted (id);
CREATE INDEX parted_v ON parted (v);
CREATE FUNCTION compare_backwards(int4, int4) RETURNS int4 LANGUAGE sql IMMUTABLE AS $$ SELECT btint4cmp($2, $1) $$;
CREATE OPERATOR CLASS "Back wards" FOR TYPE int4 USING btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 compare_backwards(int4, int4);
CREATE INDEX sold_back ON sold (product "Back wards");
INSERT INTO sold SELECT i, i FROM generate_series(1, 3000) i;
-- Reasons by their names; where versions differ, which of them they are.
CREATE TABLE stated (index name, before text[], before_remarks text[], since text[], since_remarks text[]);
INSERT INTO stated VALUES
('parted_1_id_idx', '{ON CONFLICT,partitioned}', NULL, NULL, '{partitioned}'),
('parted_1_v_idx', NULL, '{partitioned}', NULL, '{partitioned}'),
('product_at', NULL, '{constraint}', NULL, '{constraint}'),
('product_code', '{ON CONFLICT}', NULL, NULL, NULL),
('product_invalid', '{invalid}', NULL, '{invalid}', NULL),
('product_kept', '{ON CONFLICT,replica identity}', NULL, NULL, NULL),
('product_length', '{key too long}', NULL, '{key too long}', NULL),
('product_name', '{constraint}', NULL, NULL, '{constraint}'),
('product_part', '{foreign key target,ON CONFLICT}', NULL, NULL, NULL),
('product_pkey', '{foreign key target,constraint}', NULL, NULL, NULL),
('seen_i', '{REFRESH CONCURRENTLY}', NULL, NULL, NULL),
('sold_back', '{operator class}', NULL, '{operator class}', NULL);
CREATE FUNCTION names(reasons text[]) RETURNS text[] LANGUAGE sql AS $$
  SELECT array_agg(name ORDER BY name)
    FROM unnest(reasons) r, substring(r FROM '^[^:]+') name
   WHERE name <> 'nothing gained' AND (name <> 'replica identity' OR current_setting('server_version_num')::int BETWEEN 170000 AND 179999)
$$;
CREATE VIEW advised AS SELECT * FROM fpbtree_advise('reasons');
SELECT s.index, names(a.why_not) IS NOT DISTINCT FROM names(CASE WHEN modern() THEN s.since ELSE s.before END)
    AND names(a.remarks) IS NOT DISTINCT FROM names(CASE WHEN modern() THEN s.since_remarks ELSE s.before_remarks END) AS as_stated
  FROM stated s LEFT JOIN advised a USING (index) ORDER BY s.index;
-- In full, those that are the same on every version.
SELECT index, expected IS NULL AS unknown, certainty, why_not, remarks FROM advised
 WHERE index IN ('product_invalid', 'product_at', 'sold_back', 'parted_1_v_idx') ORDER BY index;
SELECT expected, certainty, why_not[1] ~ '^key too long: one has 2[0-9]{3} bytes, and 1800 are the most$' AS as_stated FROM advised WHERE index = 'product_length';
-- Scans are counted.
SELECT scans FROM advised WHERE index = 'product_code';
SET enable_seqscan = off;
SELECT count(*) FROM product WHERE code = 'c5';
RESET enable_seqscan;
SELECT pg_stat_force_next_flush() \g /dev/null
SELECT scans FROM fpbtree_advise('product_code');
-- What may be named: a table, its partitions, an index, a schema; as names are written.
SELECT array_agg(index ORDER BY index) FROM fpbtree_advise('sold');
SELECT array_agg(index ORDER BY index) FROM fpbtree_advise('parted');
SELECT array_agg(index ORDER BY index) FROM fpbtree_advise('parted_v');
SELECT array_agg(index ORDER BY index) FROM fpbtree_advise('reasons.seen');
SELECT schema, "table", index FROM fpbtree_advise('"reasons"."seen_i"');
SELECT count(*) > 40 AS many FROM fpbtree_advise();
SELECT count(*) FROM fpbtree_advise(NULL) WHERE schema IN ('pg_catalog', 'pg_toast', 'information_schema');
CREATE TABLE fp (id int);
CREATE INDEX fp_id ON fp USING fpbtree (id);
CREATE VIEW nothing AS SELECT;
CREATE TABLE mixed (id int);
SELECT s, harness.outcome(s) FROM unnest(ARRAY[
'SELECT fpbtree_advise(''absent'')', 'SELECT fpbtree_advise(''reasons.absent'')', 'SELECT fpbtree_advise('''')', 'SELECT fpbtree_advise(''a b'')',
'SELECT fpbtree_advise(''fp_id'')', 'SELECT fpbtree_advise(''nothing'')', 'SELECT fpbtree_advise(''mixed'')', 'SELECT fpbtree_advise(''pg_catalog.pg_class'')',
'SELECT fpbtree_advise(''sold'', 9)', 'SELECT fpbtree_advise(''sold'', 1000001)', 'SELECT fpbtree_advise(''sold'', NULL)', 'SELECT fpbtree_advise(''fp'')',
'SELECT fpbtree_advise_sample(''fp_id'', 300)', 'SELECT fpbtree_advise_sample(''sold'', 300)', 'SELECT fpbtree_advise_sample(''product_invalid'', 300)',
'SELECT fpbtree_advise_sample(''parted_v'', 300)', 'SELECT fpbtree_advise_sample(1, 300)', 'SELECT fpbtree_advise_sample(NULL, 300)']) s;
SELECT count(*) FROM fpbtree_advise_sample(1, 300);
-- For the owner, who need be nothing else.
CREATE ROLE regress_fpbtree_owner;
CREATE ROLE regress_fpbtree_reader;
CREATE ROLE regress_fpbtree_member IN ROLE regress_fpbtree_owner;
GRANT USAGE ON SCHEMA reasons, harness TO regress_fpbtree_owner, regress_fpbtree_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA reasons TO regress_fpbtree_reader;
ALTER TABLE sold OWNER TO regress_fpbtree_owner;
SET ROLE regress_fpbtree_owner;
SELECT count(*), array_agg(index) FROM fpbtree_advise();
SELECT count(*) FROM fpbtree_advise('sold');
SET ROLE regress_fpbtree_member;
SELECT count(*) FROM fpbtree_advise('reasons');
SET ROLE regress_fpbtree_reader;
SELECT count(*) FROM fpbtree_advise();
SELECT s, harness.outcome(s) FROM unnest(ARRAY['SELECT fpbtree_advise(''sold'')', 'SELECT fpbtree_advise_sample(''sold_back'', 300)']) s;
RESET ROLE;
-- The owner's functions run as the owner, whoever asks.
CREATE TABLE seen_by (who name);
GRANT ALL ON seen_by TO PUBLIC;
CREATE FUNCTION compare_and_tell(int4, int4) RETURNS int4 LANGUAGE plpgsql SET search_path = reasons, public AS $$
BEGIN
  IF current_setting('advise.asked', true) = 'yes' THEN
    INSERT INTO seen_by VALUES (current_user);
  END IF;
  RETURN btint4cmp($1, $2);
END $$;
CREATE OPERATOR CLASS telling FOR TYPE int4 USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 compare_and_tell(int4, int4);
CREATE INDEX sold_telling ON sold (part telling);
SET advise.asked = 'yes';
SELECT count(*) FROM fpbtree_advise('sold_telling');
RESET advise.asked;
SELECT DISTINCT who FROM seen_by;
-- Pages that have gone, and entries.
CREATE TABLE gone (id int);
CREATE INDEX gone_id ON gone (id);
INSERT INTO gone SELECT generate_series(1, 30000);
SELECT entries FROM fpbtree_advise_sample('gone_id', 300);
DELETE FROM gone WHERE id BETWEEN 100 AND 20000;
VACUUM gone;
SELECT entries, expected < 15 * 8192 AS small FROM fpbtree_advise_sample('gone_id', 300);
SELECT expected < 15 * 8192 AS small FROM fpbtree_advise_sample('gone_id', 20);
DELETE FROM gone;
VACUUM gone;
SELECT entries, expected FROM fpbtree_advise_sample('gone_id', 300);
-- Where all of a key's rows are dead, and the index knows it.
CREATE TABLE known (id int);
CREATE INDEX known_id ON known (id);
INSERT INTO known SELECT generate_series(1, 1000);
DELETE FROM known WHERE id > 10;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM known WHERE id > 0;
SELECT entries BETWEEN 10 AND 1000 AS possible FROM fpbtree_advise_sample('known_id', 300);
RESET enable_seqscan;
RESET enable_bitmapscan;
-- In every place a statement can be.
BEGIN;
SELECT count(*) FROM fpbtree_advise('reasons');
SAVEPOINT s;
SELECT count(*) FROM fpbtree_advise('absent');
ROLLBACK TO s;
SELECT count(*) FROM fpbtree_advise('reasons', 10);
COMMIT;
CREATE TEMP TABLE mine (id int);
CREATE INDEX mine_id ON mine (id);
INSERT INTO mine SELECT generate_series(1, 3000);
SELECT index, expected < size AS smaller FROM fpbtree_advise('pg_temp.mine');
RESET search_path;
DROP TABLE pg_temp.mine;
SET client_min_messages = error;
DROP SCHEMA mixed, reasons CASCADE;
DROP OWNED BY regress_fpbtree_owner, regress_fpbtree_reader;
DROP ROLE regress_fpbtree_owner, regress_fpbtree_reader, regress_fpbtree_member;
