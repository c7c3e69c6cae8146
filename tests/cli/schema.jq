# Violations of a JSON Schema, one a line: the part of it that docs/summary.schema.json uses.
#   jq -r --slurpfile schema docs/summary.schema.json -f schema.jq summary.json
$schema[0] as $root |

def deref: if has("$ref") then $root.definitions[."$ref" | ltrimstr("#/definitions/")] | deref else . end;

def is($want): type == $want or ($want == "integer" and type == "number" and . == floor);

def violations($schema; $path):
    . as $v | ($schema | deref) as $s
    | ($s.properties // {}) as $known
    | if $s | has("type") and (any([.type] | flatten | .[]; . as $t | $v | is($t)) | not)
      then "\($path): \($v | tojson | .[:40]) is not of type \($s.type)" else empty end,
      if $s | has("const") and .const != $v then "\($path): not \($s.const)" else empty end,
      if $s | has("enum") and (any(.enum[]; . == $v) | not) then "\($path): \($v) is not one of \($s.enum)" else empty end,
      if $s | has("minimum") and ($v < .minimum) then "\($path): \($v) is under \($s.minimum)" else empty end,
      if type == "array" then to_entries[] | .key as $i | .value | violations($s.items // {}; "\($path)[\($i)]")
      elif type == "object" then
          (($s.required // [])[] | . as $name | select($v | has($name) | not) | "\($path): no \($name)"),
          (to_entries[] | .key as $name
           | if $known | has($name) then .value | violations($known[$name]; "\($path).\($name)")
             elif $s.additionalProperties == false then "\($path): unknown \($name)"
             elif $s.additionalProperties | type == "object" then .value | violations($s.additionalProperties; "\($path).\($name)")
             else empty end)
      else empty end;

violations($root; "")
