package provisioner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

func waitingClaim() *corev1.PersistentVolumeClaim {
	class := "slipway-local"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "weights", UID: "7d1c",
			Annotations: map[string]string{annotationProvisioner: Name, annotationSelectedNode: "node"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}
}

// serverVolumes is the little of an API server that provisioning needs.
type serverVolumes struct {
	typedcorev1.PersistentVolumeInterface
	byName map[string]*corev1.PersistentVolume
}

func newServerVolumes() serverVolumes {
	return serverVolumes{byName: map[string]*corev1.PersistentVolume{}}
}

var volumesResource = schema.GroupResource{Resource: "persistentvolumes"}

func (s serverVolumes) Create(
	_ context.Context, volume *corev1.PersistentVolume, _ metav1.CreateOptions,
) (*corev1.PersistentVolume, error) {
	if _, exists := s.byName[volume.Name]; exists {
		return nil, apierrors.NewAlreadyExists(volumesResource, volume.Name)
	}
	s.byName[volume.Name] = volume
	return volume, nil
}

func (s serverVolumes) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	if _, exists := s.byName[name]; !exists {
		return apierrors.NewNotFound(volumesResource, name)
	}
	delete(s.byName, name)
	return nil
}

func TestAWaitingClaimGetsADirectoryAndOneVolumeHoweverOftenItIsSeen(t *testing.T) {
	server := newServerVolumes()
	p := Provisioner{Volumes: server, Root: t.TempDir()}
	for range 2 {
		if err := p.Provision(context.Background(), waitingClaim()); err != nil {
			t.Fatal(err)
		}
	}
	volume := server.byName["pvc-7d1c"]
	if len(server.byName) != 1 || volume == nil || volume.Spec.ClaimRef.Name != "weights" {
		t.Fatalf("volumes: %v", server.byName)
	}
	info, err := os.Stat(filepath.Join(p.Root, "pvc-7d1c"))
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Fatalf("directory: %v, %v", info, err)
	}
}

func TestAClaimThatDoesNotWaitForUsIsLeftAlone(t *testing.T) {
	change := map[string]func(*corev1.PersistentVolumeClaim){
		"of another provisioner": func(c *corev1.PersistentVolumeClaim) { c.Annotations[annotationProvisioner] = "other" },
		"without a node":         func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, annotationSelectedNode) },
		"bound":                  func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" },
		"being deleted":          func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} },
	}
	for name, edit := range change {
		t.Run(name, func(t *testing.T) {
			server := newServerVolumes()
			p := Provisioner{Volumes: server, Root: t.TempDir()}
			claim := waitingClaim()
			edit(claim)
			if err := p.Provision(context.Background(), claim); err != nil {
				t.Fatal(err)
			}
			if len(server.byName) != 0 {
				t.Fatalf("volumes: %v", server.byName)
			}
		})
	}
}

func TestABlockClaimIsRefusedWithTheRemedy(t *testing.T) {
	server := newServerVolumes()
	p := Provisioner{Volumes: server, Root: t.TempDir()}
	claim := waitingClaim()
	block := corev1.PersistentVolumeBlock
	claim.Spec.VolumeMode = &block
	err := p.Provision(context.Background(), claim)
	want := "claim team/weights: volumeMode Block is not available here; use Filesystem"
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestAReleasedVolumeGoesWithItsDirectory(t *testing.T) {
	server := newServerVolumes()
	p := Provisioner{Volumes: server, Root: t.TempDir()}
	if err := p.Provision(context.Background(), waitingClaim()); err != nil {
		t.Fatal(err)
	}
	volume := server.byName["pvc-7d1c"]
	volume.Status.Phase = corev1.VolumeReleased
	if err := p.Reclaim(context.Background(), volume); err != nil {
		t.Fatal(err)
	}
	if len(server.byName) != 0 {
		t.Fatalf("volumes: %v", server.byName)
	}
	if entries, _ := os.ReadDir(p.Root); len(entries) != 0 {
		t.Fatalf("left: %v", entries)
	}
}

func TestAVolumeOutsideTheRootIsNeverRemoved(t *testing.T) {
	server := newServerVolumes()
	p := Provisioner{Volumes: server, Root: t.TempDir()}
	volume := volumeFor(waitingClaim(), t.TempDir())
	volume.Status.Phase = corev1.VolumeReleased
	err := p.Reclaim(context.Background(), volume)
	if err == nil || !strings.Contains(err.Error(), "does not lie in") {
		t.Fatalf("got %v", err)
	}
}
