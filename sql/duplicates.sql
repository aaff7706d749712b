-- Few values, many rows of each: runs that grow, are split and lose entries in their middle, read in
-- both directions, on exact and prefix lanes.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE TABLE kind (name text, columns text, key text, value text, conditions text[]);
INSERT INTO kind VALUES
('int4', 'v int', 'v', 'r', '{v = 3,v > 3,v <= 2,v BETWEEN 2 AND 5,v IS NULL,"v = ANY (''{1,3,7,9}'')"}'),
('text', 'v text COLLATE "C"', 'v', $$repeat('value ', 30) || r$$, ARRAY[$$v = repeat('value ', 30) || 3$$, $$v > repeat('value ', 30) || 3$$, $$v < repeat('value ', 30) || 2$$, 'v IS NOT NULL', $$v = ANY (ARRAY[repeat('value ', 30) || 1, repeat('value ', 30) || 7, 'x'])$$]),
('linguistic text', 'v text', 'v DESC', $$'v' || r$$, ARRAY[$$v = 'v3'$$, $$v > 'v3'$$, $$v < 'v2'$$]),
('int4, text', 'a int, b text COLLATE "C"', 'a, b DESC', $$r % 3, repeat('b', r)$$, ARRAY['a = 1', $$a > 0 AND b < 'bbbb'$$, $$a = 1 AND b = 'bbb'$$, $$b = ''$$, $$a = ANY ('{0,2}') AND b = ANY ('{b,bb,bbbbb}')$$]),
('numeric', 'v numeric', 'v', 'round(r, r % 2 * 2)', '{v = 3.0,v > 3,v < 2.00}');
CREATE FUNCTION names(k kind) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(k.key, ' DESC', '', 'g') $$;
CREATE FUNCTION turned(k kind) RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(CASE WHEN c ~ 'DESC' THEN replace(c, ' DESC', '') ELSE c || ' DESC' END, ', ' ORDER BY n) FROM unnest(string_to_array(k.key, ', ')) WITH ORDINALITY u(c, n)
$$;
-- Eight values; NULL in every fortieth row.
CREATE FUNCTION fill(k kind, first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('INSERT INTO t (id, %s) SELECT i, %s FROM (SELECT i, CASE WHEN i %% 40 > 0 THEN hashint4(i) & 7 END AS r FROM generate_series(%s, %s) i) s', names(k), k.value, first, last);
END $$;
CREATE FUNCTION look(k kind) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  query text := format('SELECT %s{id} FROM {t}', names(k));
  c text;
BEGIN
  FOREACH c IN ARRAY k.conditions LOOP
    PERFORM harness.compare(k.name, query || ' WHERE ' || c, '{t}', '{index,indexonly,bitmap}', false);
    CONTINUE WHEN c ~ 'ANY';
    PERFORM harness.compare(k.name, format('%s WHERE %s ORDER BY %s{tie}', query, c, o), '{t}', '{index}', true),
            harness.compare(k.name, format('%s WHERE %s ORDER BY %s{tie} OFFSET 700 LIMIT 9', query, c, o), '{t}', '{index}', true)
       FROM unnest(ARRAY[k.key, turned(k)]) o;
  END LOOP;
  PERFORM harness.compare(k.name, format('%s ORDER BY %s{tie}', query, o), '{t}', '{index,indexonly}', true) FROM unnest(ARRAY[k.key, turned(k)]) o;
  PERFORM harness.sound(k.name, 't_idx');
END $$;
-- To and fro in the middle of a run.
CREATE FUNCTION walk(k kind) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  c refcursor;
  query text;
  plan text[];
  ids int[];
  at int := 0;
  got record;
  o text;
  d text;
BEGIN
  FOREACH o IN ARRAY ARRAY[k.key, turned(k)] LOOP
    query := format('SELECT id FROM t WHERE %s ORDER BY %s', k.conditions[2], o);
    PERFORM harness.use('index');
    plan := harness.nodes(query);
    OPEN c SCROLL FOR EXECUTE query;
    PERFORM harness.use('seq');
    EXECUTE format('SELECT array_agg(id ORDER BY %s, ctid%s) FROM t WHERE %s', o, CASE WHEN plan[1] ~ 'Backward' THEN ' DESC' ELSE '' END, k.conditions[2]) INTO ids;
    PERFORM harness.expect(k.name, plan[1] ~ 't_idx', query, plan::text);
    at := 0;
    FOREACH d IN ARRAY '{1,300,-40,-250,700,-690,5,1,-1,900,-3,-2}'::text[] LOOP
      EXECUTE format('MOVE RELATIVE %s FROM %I', d::int - sign(d::int), c);
      IF d::int > 0 THEN FETCH NEXT FROM c INTO got; ELSE FETCH PRIOR FROM c INTO got; END IF;
      at := greatest(0, least(cardinality(ids) + 1, at + d::int));
      PERFORM harness.expect(k.name, got.id IS NOT DISTINCT FROM ids[at], format('%s: move %s to %s', o, d, at), got.id::text);
    END LOOP;
    CLOSE c;
  END LOOP;
END $$;
\set ECHO none
\o /dev/null
SELECT format('CREATE TABLE t (id int, %s) WITH (autovacuum_enabled = off)', columns),
       format('SELECT fill(k, 1, 3000) FROM kind k WHERE name = %L', name),
       format('CREATE INDEX t_idx ON t USING fpbtree (%s)', key),
       format('SELECT look(k), walk(k) FROM kind k WHERE name = %L', name),
       format('SELECT fill(k, 3001, 6000), look(k), walk(k) FROM kind k WHERE name = %L', name),
       'DELETE FROM t WHERE id % 7 = 0 OR id BETWEEN 1000 AND 2500',
       format('SELECT look(k) FROM kind k WHERE name = %L', name),
       'VACUUM t',
       format('SELECT look(k), walk(k) FROM kind k WHERE name = %L', name),
       format('SELECT fill(k, 6001, 8000), look(k) FROM kind k WHERE name = %L', name),
       'REINDEX INDEX t_idx',
       'DELETE FROM t WHERE id % 3 = 0',
       format('SELECT fill(k, 8001, 9000), look(k), walk(k) FROM kind k WHERE name = %L', name),
       'DELETE FROM t WHERE id > 50',
       'VACUUM t',
       format('SELECT fill(k, 1, 2000), look(k) FROM kind k WHERE name = %L', name),
       'DROP TABLE t'
  FROM kind \gexec
\o
\set ECHO all
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP FUNCTION fill, look, walk, names, turned;
DROP TABLE kind;
