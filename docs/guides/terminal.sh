# What the guides use in their commands, in bash and zsh: `. docs/guides/terminal.sh`, in the folder of Tributary,
# with $api, $workspace and $key set to what `npm start` printed, and $email where the workspace is another person's.
: "${api:?is the address of Tributary}" "${workspace:?is an id}" "${key:?is a write key}"
token=$(npm run --silent token -- --email "${email:-dev@tributary.localhost}")
PATH=$PWD/node_modules/.bin:$PATH
mkdir -p try

# call <path> [options of curl]: calls the API as the owner of the workspace, below the workspace unless the path begins with /.
call() {
  local url=$api/api/v1/workspaces/$workspace/$1
  case $1 in /*) url=$api$1 ;; esac
  curl -sS --fail-with-body -w '\n' "$url" -H "Authorization: Bearer $token" \
    -H "X-Workspace-ID: $workspace" -H 'Content-Type: application/json' "${@:2}"
}

# save <collection> <JSON>: creates an object, or replaces the one that has its name. The second time changes nothing.
save() {
  local id
  id=$(call "$1?limit=1000" | node -p '
    JSON.parse(fs.readFileSync(0)).find(({ name }) => name === JSON.parse(process.argv[1]).name)?.id ?? ""' "$2") || return
  if [ -n "$id" ]; then call "$1/$id" -X PUT -d "$2"; else call "$1" -d "$2"; fi
}

# send <type> <JSON>: sends an event as the SDKs of Segment do, with the write key.
send() { curl -sS --fail-with-body -w '\n' "$api/v1/$1" -u "$key:" -H 'Content-Type: application/json' -d "$2"; }

# event_status <message id>: what became of an event, in a word.
event_status() { call "events/$1" | field .status; }

# field <path>: prints a field of the JSON that it reads, such as .id or '[0].name'.
field() { node -p "const value = JSON.parse(fs.readFileSync(0))$1; typeof value === 'string' ? value : JSON.stringify(value, null, 2)"; }

# await_output <text> <command>: repeats a command until its output has the text, for a minute at most.
await_output() {
  local output
  for _ in $(seq 60); do
    output=$("${@:2}" 2>&1) && case $output in *"$1"*) return ;; esac
    sleep 1
  done
  echo "No \"$1\" in a minute: $output" >&2
  return 1
}
