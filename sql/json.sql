-- jsonb: values of all kinds are in the server's order, whatever the hints say of it that spare most calls of its function.
CREATE SCHEMA json;
SET search_path = json, public;
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE v (id int, j jsonb) WITH (autovacuum_enabled = off);
INSERT INTO v (j) VALUES ('null'), ('true'), ('false'), ('0'), ('-0.0'), ('1'), ('1.0'), ('-1'), ('1e30'), ('-1e30'), ('1e-30'), ('0.5'), ('123456789012345678901234567890.5'),
  ('""'), ('"a"'), ('"A"'), ('"b"'), ('"ab"'), ('"ä"'), ('"é"'), ('"z-z"'), ('"zz"'), ('"\u0001"'), ('" "'), ('[]'), ('{}'), ('[null]'), ('[[]]'), ('[{}]'), ('[1]'), ('[1, 2]'), ('[2]'), ('["a"]'),
  ('[[1]]'), ('[[[[[[1]]]]]]'), ('[[[[[[2]]]]]]'), ('[true, 1]'), ('{"a": null}'), ('{"a": 1}'), ('{"a": 1.00}'), ('{"a": "1"}'), ('{"a": [1]}'), ('{"a": {"b": 1}}'), ('{"a": {"b": 2}}'), ('{"b": 1}'), ('{"aa": 1}'),
  ('{"ab": 1}'), ('{"a": 1, "b": 2}'), ('{"a": 2, "b": 1}'), ('{"a": true}'), ('{"a": false}'), (NULL);
INSERT INTO v (j) SELECT jsonb_build_object('n', i % 1500) FROM generate_series(1, 4000) i;
INSERT INTO v (j) SELECT jsonb_build_object('name', (ARRAY['Ann', 'ben', 'Cleo', 'Ümit', 'd-e'])[1 + i % 5] || i % 700, 'amount', round(i / 7.0 - 200, i % 5), 'tags', jsonb_build_array(i % 3, i % 2 = 0)) FROM generate_series(1, 4000) i;
INSERT INTO v (j) SELECT to_jsonb(ARRAY[i % 37, -i % 11, i]) FROM generate_series(1, 1000) i;
-- More elements than one word says where they end, values that are compressed, and such as are alike for long.
INSERT INTO v (j) SELECT jsonb_agg(n % (i + 7)) FROM generate_series(1, 40) i, generate_series(1, 30 + i) n GROUP BY i;
INSERT INTO v (j) SELECT jsonb_object_agg('key ' || n, repeat('x', i) || n % i) FROM generate_series(1, 30) i, generate_series(1, 40) n GROUP BY i;
INSERT INTO v (j) SELECT jsonb_build_object('text', repeat('again ', 200) || i % 20) FROM generate_series(1, 60) i;
INSERT INTO v (j) SELECT jsonb_build_object('a', jsonb_build_object('b', jsonb_build_object('c', jsonb_build_object('d', jsonb_build_object('e', i % 30))))) FROM generate_series(1, 300) i;
UPDATE v SET id = n FROM (SELECT ctid AS row, row_number() OVER (ORDER BY md5(j::text), ctid) AS n FROM v) s WHERE ctid = s.row;
-- Built, grown in a random order, and descending.
CREATE TABLE g (LIKE v) WITH (autovacuum_enabled = off);
CREATE INDEX g_j ON g USING fpbtree (j);
INSERT INTO g SELECT * FROM v ORDER BY id;
CREATE INDEX v_j ON v USING fpbtree (j);
CREATE INDEX v_desc ON v USING fpbtree (j DESC, id);
VACUUM ANALYZE v, g;
SELECT count(*) FROM v;
SELECT count(*) FROM fpbtree_check('v_j') UNION ALL SELECT count(*) FROM fpbtree_check('g_j') UNION ALL SELECT count(*) FROM fpbtree_check('v_desc');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT j FROM v ORDER BY j;
CREATE FUNCTION ascends(rows text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  result bool;
BEGIN
  EXECUTE format('SELECT bool_and(j >= before) FROM (SELECT j, lag(j) OVER () AS before FROM (%s) r) s', rows) INTO result;
  RETURN result;
END $$;
SELECT ascends('SELECT j FROM v ORDER BY j'), ascends('SELECT j FROM g ORDER BY j');
SELECT (SELECT md5(string_agg(j::text, ' ')) FROM (SELECT j FROM v ORDER BY j DESC, id) s) = (SELECT md5(string_agg(j::text, ' ' ORDER BY j DESC, id)) FROM v) AS descending;
-- Every value is found, as often as it is there.
RESET enable_sort;
CREATE TABLE d AS SELECT DISTINCT j FROM v;
ANALYZE d;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
SELECT count(*) FROM d JOIN v USING (j);
SELECT count(*) FROM d JOIN g USING (j);
SELECT count(*) FROM v WHERE j > '{"n": 300}' AND j <= '{"n": 301}';
SELECT count(*) FROM g WHERE j < '[]';
DELETE FROM g WHERE id % 3 = 0;
VACUUM g;
INSERT INTO g SELECT * FROM v WHERE id % 3 = 0;
SELECT count(*) FROM d JOIN g USING (j);
SELECT count(*) FROM fpbtree_check('g_j');
DROP SCHEMA json CASCADE;
