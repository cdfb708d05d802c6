r"""Rare forms of secrets: commands, headers, connection strings, configuration files, and sentences.

In each form ``@@`` marks the place of the secret, and the letter is the kind of secret.
"""

from __future__ import annotations

import base64
import random

from tests.secret_samples import ALNUM, DIGITS, LOWER, UPPER, Sample

_random = random.Random(20_261_129)

_COMMANDS = r"""
p 7z a -p@@ backup.7z docs/
p 7za x archive.7z -p@@ -o/tmp/out
p unzip -P @@ a.zip
p unrar x -p@@ a.rar
p rar a -hp@@ a.rar docs
p htpasswd -bc .htpasswd admin @@
p htpasswd -nbB admin @@
p mysql -uroot -p@@ -h db app
p mysqldump -u root -p'@@' app > dump.sql
p mysqladmin -u root password @@
p mariadb -p"@@" app
p sshpass -p@@ ssh me@host
p sshpass -p '@@' scp a host:
p mongosh --host h -u app -p @@
p mongodump --uri h --username app --password @@
p redis-cli -h cache -a @@ ping
p PGPASSWORD=@@ psql -h db app
p MYSQL_PWD=@@ mysql app
p RESTIC_PASSWORD=@@ restic backup .
p BORG_PASSPHRASE='@@' borg create ::a .
p docker login -u me -p @@ registry.example.com
p podman login -u me -p @@ quay.io
p helm registry login -u me -p @@ r.example.com
p echo @@ | docker login -u me --password-stdin
p printf '%s' '@@' | gh secret set NAME
p echo "@@" | gpg --batch --passphrase-fd 0 -d a.gpg
p gpg --batch --passphrase @@ -d a.gpg
p openssl enc -aes-256-cbc -pass pass:@@ -in a
p openssl pkcs12 -export -passout pass:@@ -in a.pem
p openssl rsa -passin 'pass:@@' -in key.pem
p curl -u app:@@ https://example.com
p curl --user "app:@@" https://example.com
p curl -su 'app:@@' https://example.com
p curl --proxy-user app:@@ https://example.com
t curl -H 'X-Auth-Token: @@' https://example.com
t curl --header "Authorization: Bearer @@" https://example.com
t curl --header 'Authorization: @@' https://example.com
t curl https://example.com --oauth2-bearer @@
t curl -d 'grant_type=client_credentials&client_secret=@@' https://example.com
t curl -F token=@@ https://example.com
t curl -d token=@@ https://example.com
p wget --user=me --password=@@ https://example.com
p wget --http-password @@ https://example.com
t wget --header="PRIVATE-TOKEN: @@" https://example.com
t http GET example.com 'Authorization:Bearer @@'
t http example.com X-Api-Key:@@
p lftp -u me,@@ ftp.example.com
p ncftpput -u me -p @@ host . a
p ldapsearch -x -D cn=admin -w @@ -b dc=a
p net use Z: \\host\share /user:me @@
p net user me @@ /add
p smbclient //h/s -U me%@@
p mount -t cifs -o username=me,password=@@ //h/s /mnt
p xfreerdp /u:me /p:@@ /v:host
p ipmitool -H h -U admin -P @@ power status
p snmpwalk -v3 -u me -A @@ -X 12345678 host
p echo 'root:@@' | chpasswd
p useradd -m -p @@ me
p usermod --password @@ me
p echo @@ | passwd --stdin me
p ansible-playbook site.yml -e ansible_password=@@
p ansible-playbook site.yml --extra-vars "db_password=@@"
t gh secret set NAME --body @@
t gh secret set NAME -b"@@"
t gh variable set API_TOKEN --body "@@"
t glab variable set API_TOKEN @@
t heroku config:set SECRET_KEY_BASE=@@
t fly secrets set API_KEY=@@
t flyctl secrets set SESSION=@@ -a app
t wrangler secret put NAME <<< @@
t vercel env add API_TOKEN production <<< @@
t kubectl create secret generic a --from-literal=value=@@
t kubectl create secret docker-registry r --docker-username=me --docker-password=@@
t kubectl config set-credentials me --token=@@
t aws configure set aws_secret_access_key @@
t aws secretsmanager create-secret --name a --secret-string @@
t aws ssm put-parameter --name /a --type SecureString --value @@
t az login --service-principal -u a -p @@ --tenant b
t az keyvault secret set --vault-name v --name n --value @@
t gcloud secrets create n --data-file=- <<< @@
t vault kv put secret/a value=@@
t vault login @@
t vault login token=@@
t vault write auth/userpass/users/me password=@@
t consul kv get -token=@@ a
t npm config set //registry.npmjs.org/:_authToken @@
t npm config set _auth @@
t yarn config set npmAuthToken @@
t poetry config pypi-token.pypi @@
p poetry config http-basic.a me @@
p twine upload -u me -p @@ dist/*
t cargo login @@
t cargo publish --token @@
t gem push a.gem --key @@
p nuget push a.nupkg -ApiKey @@
p dotnet nuget add source u -u me -p @@
t dotnet user-secrets set Db:Password @@
p pip install --index-url https://me:@@@pypi.example.com/simple a
p uv pip install --extra-index-url=https://me:@@@pypi.example.com/simple a
p git clone https://me:@@@github.com/a/b
t git remote add o https://oauth2:@@@gitlab.com/a/b
t git -c http.extraHeader="Authorization: Basic @@" fetch
t sentry-cli --auth-token @@ releases list
t snyk auth @@
t doppler run --token @@
t ngrok config add-authtoken @@
t ngrok authtoken @@
t cloudflared service install @@
t tailscale up --authkey @@
t tailscale up --auth-key=@@
t export DEPLOY_TOKEN=@@
t set API_SECRET=@@
t setx API_SECRET @@
t fish -c 'set -x API_TOKEN @@'
t $env:API_SECRET = "@@"
t $env:API_SECRET='@@'
t [Environment]::SetEnvironmentVariable("API_SECRET", "@@", "User")
p ConvertTo-SecureString "@@" -AsPlainText -Force
p ConvertTo-SecureString -String '@@' -AsPlainText
p New-Object PSCredential("me", "@@")
p cmdkey /add:h /user:me /pass:@@
p schtasks /create /ru me /rp @@ /tn a
p psexec \\h -u me -p @@ cmd
p sqlcmd -S h -U sa -P @@ -Q "select 1"
p bcp db.dbo.t out f -U sa -P @@
p sqlplus scott/@@@db
p impdp system/@@ directory=d
p psql "host=db user=app password=@@ dbname=a"
p keytool -genkey -keypass @@ -alias a
p jarsigner -storepass @@ a.jar k
p rsync --password-file=<(echo @@) a host::b
p security add-generic-password -a me -s a -w @@
p secret-tool store --label=a <<< @@
p expect -c 'send "@@\r"'
p steghide embed -cf a.jpg -ef b -p @@
p pdftk a.pdf output b.pdf user_pw @@
p qpdf --encrypt user @@ 256 -- a b
p cryptsetup luksOpen /dev/sda x <<< "@@"
p nmcli dev wifi connect net password @@
p wpa_passphrase net @@
p rclone config create r sftp host h pass @@
p rclone obscure @@
p influx -username admin -password @@
p cqlsh -u me -p @@ host
p clickhouse-client --user a --password @@
p amqp-publish -u amqp://a:@@@h
p mosquitto_pub -u me -P @@ -t a
p java -Djavax.net.ssl.keyStorePassword=@@ -jar a.jar
p mvn -Dsonar.login=@@ verify
p ./gradlew publish -PsigningPassword=@@
"""

_CONTENT = r"""
p pw: @@
p PW=@@
p user: me / pw: @@
p login: me, pass: @@
p user=me pwd=@@
p Username: me\nPassword: @@
p Passwort: @@
p mot de passe : @@
p The password is @@.
p the password for staging is @@
p my password is @@, please use it
p password is: @@
p use the password "@@" for the login
p Use password @@ to log in
p The new API key is `@@`.
p passphrase: "@@"
p the passphrase of the key is @@
p the root password was changed to @@
p I set the admin password to "@@"
p PIN and secret: @@
p pwd is @@
p API token: `@@`
t Here is my token: @@
t Your API key: @@
t the secret is @@
t | API key | `@@` |
t | password | @@ |
t - **Password:** @@
t **API Key**: `@@`
t Access key ID / Secret access key\nsecret access key: @@
o VAULT_TOKEN is @@ here
o token s.@@ of vault
t x-honeycomb-team: @@
t X-API-KEY: @@
t x-goog-api-key: @@
t api-key: @@
t Ocp-Apim-Subscription-Key: @@
t DD-API-KEY: @@
t DD-APPLICATION-KEY: @@
t X-Shopify-Access-Token: @@
t X-Auth-Key: @@
t X-Figma-Token: @@
t X-JFrog-Art-Api: @@
t X-Redmine-API-Key: @@
t X-Amz-Security-Token: @@
t X-Algolia-API-Key: @@
t X-RapidAPI-Key: @@
t X-Plex-Token: @@
t X-CSRF-Token: @@
t X-NewRelic-License-Key: @@
t Api-Token: @@
t X-Postmark-Server-Token: @@
t X-Sumo-Token: @@
t Lightstep-Access-Token: @@
t X-SF-Token: @@
t signoz-ingestion-key: @@
t uptrace-dsn: https://@@@api.uptrace.dev/1
t CF-Access-Client-Secret: @@
t Proxy-Authorization: Basic @@
t X-Splunk-Token: @@
t Authorization: Splunk @@
t Authorization: Api-Token @@
t Authorization: SSWS @@
t Authorization: GoogleLogin auth=@@
t Authorization: Token token="@@"
t Authorization: AWS AKIAIOSFODNN7EXAMPLE:@@
t OTEL_EXPORTER_OTLP_HEADERS=x-honeycomb-team=@@
t OTEL_EXPORTER_OTLP_HEADERS="api-key=@@,dataset=a"
t {"headers": {"x-honeycomb-team": "@@"}}
t {"name": "x-honeycomb-team", "value": "@@"}
b DefaultEndpointsProtocol=https;AccountName=a;AccountKey=@@;EndpointSuffix=core.windows.net
b Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=R;SharedAccessKey=@@;EntityPath=q
b HostName=a.azure-devices.net;DeviceId=d;SharedAccessKey=@@
b SharedAccessSignature sr=a&sig=@@&se=1
b BlobEndpoint=https://a;SharedAccessSignature=sv=2020&sig=@@
b AccountEndpoint=https://a.documents.azure.com:443/;AccountKey=@@;
p Server=tcp:a,1433;User ID=me;Password=@@;Encrypt=True
p Driver={ODBC Driver 17};Server=a;UID=me;PWD=@@
p Driver={SQL};UID=me;PWD={@@};
p Data Source=a;User Id=me;Pwd=@@;
p jdbc:mysql://h/db?user=me&password=@@
p jdbc:sqlserver://h;user=me;password=@@;
p jdbc:postgresql://h/db?user=me&password=@@&ssl=true
p snowflake://me:@@@acct/db
p mysql+pymysql://me:@@@h/db
p amqp://me:@@@h:5672/v
p ldap://cn=a:@@@h
p smtps://me%40a.com:@@@smtp.example.com:465
p ftp://me:@@@ftp.example.com/a
p host=db port=5432 user=me password='@@' sslmode=require
p CREATE ROLE me LOGIN PASSWORD '@@';
p ALTER USER me WITH PASSWORD '@@';
p alter user me with encrypted password '@@'
p ALTER USER 'me'@'%' IDENTIFIED BY '@@';
p CREATE USER me IDENTIFIED BY "@@";
p GRANT ALL ON a.* TO 'me'@'h' IDENTIFIED BY '@@' WITH GRANT OPTION;
p SET PASSWORD FOR me = PASSWORD('@@');
p UPDATE u SET pw = PASSWORD("@@");
p CREATE LOGIN me WITH PASSWORD = N'@@';
p SELECT pgp_sym_encrypt(a, '@@')
p CREATE USER MAPPING FOR me OPTIONS (user 'me', password '@@');
p IDENTIFIED WITH mysql_native_password BY '@@'
p machine api.example.com login me password @@
p machine h\n  login me\n  password @@\n
p default login me password @@
p db.example.com:5432:app:me:@@
p *:*:*:postgres:@@
p h:5432:*:me:@@
t {"auths": {"r.example.com": {"auth": "@@"}}}
t {"auths":{"https://index.docker.io/v1/":{"identitytoken":"@@"}}}
t client-key-data: @@
t token: @@
t id-token: @@
t refresh-token: @@
t //npm.example.com/:_authToken=@@
t //npm.example.com/:_password="@@"
t _auth=@@
t npmAuthToken: "@@"
t npmAuthIdent: "me:@@"
t [pypi]\nusername = __token__\npassword = @@
p index-url = https://me:@@@pypi.example.com/simple
p <password>@@</password>
p <add key="Password" value="@@" />
p <add key="ClearTextPassword" value="@@" />
p <property name="password" value="@@"/>
p <Property Name="hibernate.connection.password">@@</Property>
p <entry key="db.password">@@</entry>
p <string name="api_key">@@</string>
p <key>apiToken</key><string>@@</string>
p <wsse:Password Type="a">@@</wsse:Password>
p android.keyPassword=@@
p storePassword "@@"
p password "@@"
p password = "@@"
p password: '@@'
p password: >-\n  @@
p password: |\n  @@\n
p db_password: !!str "@@"
p variable "db_password" {\n  default = "@@"\n}
p password => "@@"
p :password => "@@"
p password: "@@",
p "password" : "@@"
p 'password': '@@'
p [password]=@@
p password := "@@"
p self.password = "@@"
p this.password = '@@';
p private static final String PASSWORD = "@@";
p const char *password = "@@";
p #define WIFI_PASSWORD "@@"
p let password: &str = "@@";
p val password: String = "@@"
p var password string = "@@"
p password: str = "@@"
p setPassword("@@")
p .password("@@")
p withPassword('@@')
p WithCredentials("me", "@@")
p new NetworkCredential("me", "@@")
p login("me@example.com", "@@")
p smtp.login('me', '@@')
p psycopg2.connect("dbname=a user=me password=@@")
p DB_PASSWORD="@@" # comment
p spring.datasource.password=@@
p spring.redis.password: @@
p define( 'AUTH_KEY', '@@' );
p $cfg['Servers'][$i]['password'] = '@@';
p $db_pass = '@@';
p ENV DB_PASSWORD @@
p ARG NPM_TOKEN=@@
p - name: DB_PASSWORD\n  value: "@@"
p stringData:\n  password: @@
p requirepass @@
p masterauth @@
p psk="@@"
p wpa-psk @@
p enable secret 0 @@
p username admin password 0 @@
p snmp-server community @@ RO
p Set-Cookie: JSESSIONID=@@; Path=/
p Cookie: a=b; SSID=@@
p cookie: connect.sid=@@
p document.cookie = "session=@@"
s otpauth://totp/A:me?secret=@@&issuer=A
s otpauth://hotp/A?issuer=A&secret=@@
s TOTP secret: @@
t Bearer @@
t "Bearer @@"
t token=@@&user=me
t https://example.com/hook?token=@@
t https://example.com/#access_token=@@&token_type=bearer
t https://example.com/reset?code=@@
t wss://h/?apikey=@@
j Authorization: @@
j the cookie was @@ today
t {"type": "service_account", "client_secret": "@@"}
t {"refresh_token": "@@"}
t {"access_token":"@@","token_type":"bearer"}
t {'aws_secret_access_key': '@@'}
t {"SecretAccessKey": "@@"}
t {"accessToken":"@@"}
t {"webhookSecret": "@@"}
t {\"session_token\": \"@@\"}
t Secret=@@
t secret_key_base: @@
t DJANGO_SECRET_KEY = '@@'
t app.secret_key = '@@'
t app.config["SECRET_KEY"] = "@@"
t JWT_SECRET=@@
t NEXTAUTH_SECRET="@@"
t SLACK_SIGNING_SECRET: @@
t ENCRYPTION_KEY=@@
t MASTER_KEY=@@
t RAILS_MASTER_KEY=@@
t TF_VAR_db_password=@@
t GITHUB_PAT=@@
t AZURE_DEVOPS_EXT_PAT=@@
t CI_JOB_TOKEN=@@
t SNYK_TOKEN=@@
t CODECOV_TOKEN=@@
t ACCOUNT_SAS=@@
t AZURE_CLIENT_SECRET=@@
t CLOUDINARY_URL=cloudinary://123456789012345:@@@a
t TWILIO_AUTH_TOKEN is @@
t ALGOLIA_ADMIN_KEY=@@
t STRIPE_KEY=@@
t MAPBOX_TOKEN: @@
"""


def _pick(count: int, alphabet: str = ALNUM) -> str:
    samples = [_random.choice(alphabet) for _ in range(count)]
    for at, kind in enumerate((UPPER, LOWER, DIGITS)):  # one of each, so that it does not look like a word
        samples[2 + at] = _random.choice([c for c in alphabet if c in kind] or alphabet)
    return "".join(samples)


def _secret(kind: str) -> str:
    match kind:
        case "p":
            return f"{_pick(5, LOWER)}{_pick(5, DIGITS)[:2]}-{_pick(5)}"
        case "o":
            return "s." + _pick(24)
        case "b":
            return _pick(86) + "=="
        case "s":
            return _pick(32, UPPER + "234567")
        case "j":
            parts = (b'{"alg":"RS256"}', b'{"iss":"' + _pick(9).encode() + b'"}')
            return ".".join(base64.urlsafe_b64encode(p).decode().rstrip("=") for p in parts) + "." + _pick(60)
        case _:
            return _pick(36)


def _samples(table: str) -> list[Sample]:
    samples: list[Sample] = []
    for line in table.strip().splitlines():
        kind, form = line[0], line[2:].replace(r"\n", "\n")
        secret = _secret(kind)
        if "s.@@" in form:
            secret = secret.removeprefix("s.")
        samples.append(Sample(form, form.replace("@@", secret), secret))
    return samples


FORMS = _samples(_COMMANDS) + _samples(_CONTENT)

ORDINARY_FORMS = [
    line.replace(r"\n", "\n")
    for line in r"""
7z a backup.7z docs/ && 7z x -y backup.7z
tar -xpf a.tar && cp -p a b && mkdir -p build/out2
unzip -p archive2.zip META-INF/MANIFEST.MF
mysql -u root -p app < schema_v2.sql
mysql -h db2 -P 3306 -u app app2
docker login -u me --password-stdin registry2.example.com
docker run -p 8080:80 -u 1000:1000 -e MODE=dev2 nginx:1.27
docker compose -p project2 up -d
curl -u "$USER:$PASS" https://example.com/v2
curl -sS -o out2.json -w '%{http_code}' https://example.com
ssh -p 2222 me@host2 && scp -P 2222 a me@host2:
psql -h db -p 5432 -U app -w app2
htpasswd -c .htpasswd admin2
openssl enc -aes-256-cbc -pass env:PASS2 -in a
gpg --batch --passphrase-file pass2.txt -d a.gpg
gh secret set NAME --body "$VALUE"
gh secret list --repo owner/repo2
gh pr create --body "Fixes #123" --title v2
git commit -m "token refresh 2" && git push -u origin feature2
kubectl create secret generic a --from-file=./key2.pem
kubectl get secret db-secret-2 -o yaml
vault kv get secret/data/app2
aws ssm get-parameter --name /app/db2
aws secretsmanager get-secret-value --secret-id app2/db
az keyvault secret show --vault-name v2 --name n2
cargo login && cargo publish --dry-run
npm login --scope=@me2 && npm run build2
pip install --index-url https://pypi.example.com/simple2 pkg2
poetry config virtualenvs.in-project2 true
net user me2 /active:yes
sqlplus /nolog @script2.sql
ansible-vault encrypt_string --vault-id dev2@prompt
rclone config show remote2
enable secret store v2
echo "hello2" | grep -c hello2
echo version2 | sed 's/2/3/'
cat file2 <<< "the secret sauce"
useradd -m -s /bin/bash user2
sshpass -f pass2.txt ssh host
redis-cli -h cache2 -p 6379 ping
mosquitto_sub -h h2 -t topic2/#
keytool -list -keystore a2.jks
The password is required.
The password is too short; it needs 12 characters.
password is 8 characters or more
The password is SHA256-hashed before it is stored.
the password is base64-encoded
The token is invalid or expired at 12:30.
The token is valid for 30 days.
the access token is a JWT with 3 parts
The API key is missing. Set OPENAI_API_KEY.
the api key is read from config2.toml
The secret is stored in Vault2 under app/db.
the secret is out
Your password was changed on 2026-11-28.
password was set to expire in 90 days
The password for user2 is in the safe.
Use password authentication with SSH2.
use password managers
Use passphrases of 4 to 6 words
Enter your password twice
Invalid password 'short' given
bad password "required"
The key is the user's ID2.
The primary key: `user_id_2`
partition key: `tenant_2024_a`
The cache key: v1-users-2
sort key: created_at_2
Foreign key: orders_v2.id
API keys: 3 active, 2 revoked
API token page 2 of 3
access token lifetime: 3600s
read key: a, write key: b
the pass: 12 of 12 tests in 3.4s
PASS: tests/misc/sort-2.sh
pass: test_login_2 (0.12s)
PASS tests/unit/user2.test.ts
pass 2: optimizing functions
password: str
password: str | None = None
password: Annotated[str, Field(min_length=8)]
token: Optional[Token2] = None
def set_password(self, password: str, token2: str) -> None:
user.set_password(new_password2)
setPassword(form.password2.value)
verify_password(plain2, hashed2)
self.password(input2)
getPassword().equals(other.getPassword2())
input type=password name=pw2
let password: String = read_line()?;
let password: &str = args.password2;
const password: string = env.PASSWORD2;
private final String password;
var password string
password := os.Getenv("DB_PASSWORD2")
#define MAX_PASSWORD 128
#define PASSWORD_LENGTH_V2 64
#define KEY "name"
pw = getpass.getpass()
pw = pwd.getpwnam(user2)
import pwd; pwd.getpwuid(1000)
pwd && ls -la dir2
PWD=/home/me/project2 OLDPWD=/home/me/project1
cd $(pwd)/build2
psk = ssl_psk_callback2(ctx)
CREATE TABLE u (id int, password varchar(255), token2 char(32));
SELECT password FROM users2 WHERE id = 1;
ALTER USER me WITH PASSWORD NULL;
ALTER USER me IDENTIFIED WITH auth_socket;
INSERT INTO users (name, password) VALUES (?, ?);
UPDATE u SET password = crypt($1, gen_salt('bf', 8));
GRANT SELECT ON app2.* TO 'me'@'host2';
a library identified by 'name'
login(user2, password2)
auth=(user2, password2)
HTTPBasicAuth(username, password2)
new NetworkCredential(user, pass2)
<input type="password" name="password2">
<label for="password">Password (8+ characters)</label>
<string name="password_hint2">At least 8 characters</string>
<key>CFBundleIdentifier</key><string>com.example.app2</string>
<add key="PasswordLength" value="12" />
<property name="passwordEncoder" value="bcrypt2" />
<password></password>
<xs:element name="password" type="xs:string2"/>
variable "db_password" {\n  type = string\n  sensitive = true\n}
variable "region2" {\n  default = "eu-west-1"\n}
password: ""
password: null
password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256
password: ${DB_PASSWORD2}
password: '{{ lookup("env", "PW2") }}'
token: ${{ secrets.TOKEN2 }}
passwordRef:\n  name: secret2
ENV NODE_ENV production2
ENV PATH=/opt/app2/bin:$PATH
ARG NPM_TOKEN
X-Request-Id: 3f2a9b1c-5d6e-4f70-8a91-b2c3d4e5f607
x-honeycomb-dataset: app2
X-RateLimit-Remaining: 4999
Content-Type: application/json; charset=utf-8
Server: nginx/1.27.2
src/app.py:12:5: error: name 'token2' is not defined
main.c:1024:17:note: expanded from macro 'KEY2'
10.0.0.1:5432: connection refused
db.example.com:5432:app2
12:30:45:678 INFO started2
https://example.com:8443/a@2x.png
git@github.com:me/repo2.git
postgres://localhost:5432/app2
files. s.length2 and s.split("2"); args.s.x2
import React2 from 'react'; s.getElementsByTagNameNS
const s=this.props.s.currentTargetElement2Identifier();
token_2, key_3, password_4 = row
keys: [a1, b2], tokens: [c3]
Basic usage2 of the command
basic YWJj is not base64 of a login
otpauth is the scheme of URLs for 2FA
otpauth://totp/NAME?secret=<SECRET>&issuer=ISSUER
The cookie is set for 30 days; cookie: none
Set-Cookie: theme=dark; Path=/; Max-Age=3600
Cookie consent v2 was given
cookies = SimpleCookie2(header)
AccountKey=<key>;EndpointSuffix=core.windows.net
Server=db2;Database=app2;Trusted_Connection=True
jdbc:postgresql://localhost:5432/app2?ssl=true
machine learning, login page 2
default login shell: /bin/zsh
export TOKEN_LIMIT=4096 MAX_TOKENS=8192
$env:PATH = "C:\tools2;" + $env:PATH
$env:NODE_ENV = "production2"
test_password_is_hashed_2 PASSED
it("redacts the password 2 times", () => {})
describe('token2', () => { it('is refreshed') })
e.key==="Enter"&&t.token2(n.key1)
function a(e){return e.pass?e.token.key2:null}var b={key:1,token:c2};
const {password:e2,token:t2}=n;r.auth=e2;
uv.lock: hash = "sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
--hash=sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0
"resolved": "https://registry.npmjs.org/a/-/a-1.0.2.tgz", "integrity": "sha1-3fE9c0Jk5Zp2m8Qw7Yb1Xv4Tn6s="
numpy/data/mypy.ini,sha256=q0d9xXv3Aw7JngPw-7Eq8rp4QqYITitF5iIFssWSmZM,214
index 3f2a9b1c5..7d8e9f0a1 100644
Merge: 3f2a9b1 7d8e9f0
From 3f2a9b1c5d6e4f708a91b2c3d4e5f6073f2a9b1c Mon Sep 17 00:00:00 2001
""".strip().splitlines()
]
"""Texts of the same programs, formats, and languages without a secret."""
