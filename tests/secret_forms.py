r"""Rare forms of secrets: commands, headers, connection strings, configuration files, and sentences.

In each form ``@@`` is where the secret is, and the letter says which kind of secret that is.
"""

from __future__ import annotations

import base64
import random
import string

from tests.secret_samples import ALNUM, DIGITS, HEX, LOWER, UPPER, Sample

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
p h:6432:*:me:@@
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
    made = [_random.choice(alphabet) for _ in range(count)]
    for at, kind in enumerate((UPPER, LOWER, DIGITS)):  # one of each, so that it is like no word
        made[2 + at] = _random.choice([c for c in alphabet if c in kind] or alphabet)
    return "".join(made)


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
    made: list[Sample] = []
    for line in table.strip().splitlines():
        kind, form = line[0], line[2:].replace(r"\n", "\n")
        secret = _secret(kind)
        if "s.@@" in form:
            secret = secret.removeprefix("s.")
        made.append(Sample(form, form.replace("@@", secret), secret))
    return made


FORMS = _samples(_COMMANDS) + _samples(_CONTENT)
